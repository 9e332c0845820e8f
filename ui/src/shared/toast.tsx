import { signal } from '@preact/signals'
import { useEffect, useState } from 'preact/hooks'

interface Toast {
  id: number
  text: string
  failed?: boolean
  undo?: () => unknown
}

const LASTS = 8000 // milliseconds
const UNDO_LASTS = 20_000
const MOST = 5 // at once
const shown = signal<Toast[]>([])
let count = 0

/** Say what was done, with a way back where there is one. Ways back stay beside each other; a mere word makes way for the next. */
export function toast(text: string, more: Omit<Toast, 'id' | 'text'> = {}): void {
  shown.value = [...shown.value.filter((one) => one.undo), { id: ++count, text, ...more }].slice(-MOST)
}

export const failed = (error: unknown) =>
  toast(error instanceof Error ? error.message : String(error), { failed: true })

const close = (id: number) => (shown.value = shown.value.filter((one) => one.id !== id))

/** None leaves while somebody points at one or has the focus in it. */
export function Toasts() {
  const [isPointedAt, setPointedAt] = useState(false)
  const [isFocused, setFocused] = useState(false)
  const isEmpty = !shown.value.length
  useEffect(() => {
    if (!isEmpty) return // what is gone tells of no pointer or focus that leaves
    setPointedAt(false)
    setFocused(false)
  }, [isEmpty])
  return (
    <div
      class="toasts"
      role="status"
      aria-live="polite"
      onMouseEnter={() => setPointedAt(true)}
      onMouseLeave={() => setPointedAt(false)}
      onFocusIn={() => setFocused(true)}
      onFocusOut={() => setFocused(false)}
    >
      {shown.value.map((one) => (
        <Shown key={one.id} now={one} waits={isPointedAt || isFocused} close={() => close(one.id)} />
      ))}
    </div>
  )
}

function Shown({ now, waits, close }: { now: Toast; waits: boolean; close: () => void }) {
  useEffect(() => {
    if (waits) return
    const timer = setTimeout(close, now.undo ? UNDO_LASTS : LASTS)
    return () => clearTimeout(timer)
  }, [waits])
  const undo = async () => {
    close()
    try {
      await now.undo?.()
    } catch (error) {
      failed(error)
    }
  }
  return (
    <div class={now.failed ? 'toast failed' : 'toast'}>
      <span id={`toast${now.id}`}>{now.text}</span>
      {now.undo && (
        <button class="link" aria-describedby={`toast${now.id}`} onClick={undo}>
          Undo
        </button>
      )}
      <button class="link" aria-label="Close this message" aria-describedby={`toast${now.id}`} onClick={close}>
        ×
      </button>
    </div>
  )
}
