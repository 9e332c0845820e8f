import type { Bridge } from '../shared/bridge'
import { tool } from './api'

/** Hand a file to the browser. */
export function save(name: string, file: Blob): void {
  const link = document.createElement('a')
  link.href = URL.createObjectURL(file)
  link.download = name
  link.click()
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000)
}

/** The viewer's carrier in the web app. */
export const bridge: Bridge = {
  call: tool,
  async save(name, type, bytes) {
    save(name, new Blob([bytes], { type }))
    return `Downloading ${name}.`
  },
}
