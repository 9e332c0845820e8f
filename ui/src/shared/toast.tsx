import { signal } from '@preact/signals'

interface Toast {
  text: string
  failed?: boolean
  undo?: () => unknown
}

const LASTS = 8000 // milliseconds
const shown = signal<Toast | null>(null)
let timer = 0

/** Say what was done, with a way back where there is one. */
export function toast(text: string, more: Omit<Toast, 'text'> = {}): void {
  shown.value = { text, ...more }
  clearTimeout(timer)
  timer = window.setTimeout(() => (shown.value = null), LASTS)
}

export const failed = (error: unknown) => toast(error instanceof Error ? error.message : String(error), { failed: true })

export function Toasts() {
  const now = shown.value
  const undo = async () => {
    shown.value = null
    try {
      await now?.undo?.()
    } catch (error) {
      failed(error)
    }
  }
  return (
    <div class="toasts" role="status" aria-live="polite">
      {now && (
        <div class={now.failed ? 'toast failed' : 'toast'}>
          {now.text}
          {now.undo && <button class="link" onClick={undo}>Undo</button>}
          <button class="link" aria-label="Close this message" onClick={() => (shown.value = null)}>×</button>
        </div>
      )}
    </div>
  )
}
