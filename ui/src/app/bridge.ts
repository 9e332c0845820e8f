import type { Bridge } from '../shared/bridge'
import { tool } from './api'

const URL_LIFETIME_MS = 60_000

/** Hand a file to the browser. */
export function saveFile(name: string, file: Blob): void {
  const link = document.createElement('a')
  link.href = URL.createObjectURL(file)
  link.download = name
  link.click()
  setTimeout(() => URL.revokeObjectURL(link.href), URL_LIFETIME_MS)
}

/** The viewer's bridge in the web app. */
export const bridge: Bridge = {
  call: tool,
  storage: {
    getItem: (key) => localStorage.getItem(key),
    setItem: (key, value) => localStorage.setItem(key, value),
  },
  save(name, type, bytes) {
    saveFile(name, new Blob([bytes], { type }))
    return Promise.resolve(`Downloading ${name}.`)
  },
}
