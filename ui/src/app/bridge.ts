import type { Bridge } from '../shared/bridge'
import { tool } from './api'

/** The viewer's carrier in the web app. */
export const bridge: Bridge = {
  call: tool,
  async save(name, type, bytes) {
    const link = document.createElement('a')
    link.href = URL.createObjectURL(new Blob([bytes], { type }))
    link.download = name
    link.click()
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000)
    return `Downloading ${name}.`
  },
}
