import { signal } from '@preact/signals'
import { useEffect, useState } from 'preact/hooks'
import { errorMessage } from './format'

interface Toast {
  id: number
  text: string
  isError?: boolean
  undo?: () => unknown
}

const TOAST_MS = 8000
const UNDO_TOAST_MS = 20_000
const MAX_TOASTS = 5
const toasts = signal<Toast[]>([])
let lastId = 0

/** Show a message. Those with Undo stay beside each other; one without makes way for the next message. */
export function toast(text: string, options: Omit<Toast, 'id' | 'text'> = {}): void {
  toasts.value = [...toasts.value.filter((item) => item.undo), { id: ++lastId, text, ...options }].slice(-MAX_TOASTS)
}

export const showError = (error: unknown) => toast(errorMessage(error), { isError: true })

const close = (id: number) => (toasts.value = toasts.value.filter((item) => item.id !== id))

/** No message disappears while the pointer or the focus is in one. */
export function Toasts() {
  const [isHovered, setHovered] = useState(false)
  const [isFocused, setFocused] = useState(false)
  const isEmpty = !toasts.value.length
  useEffect(() => {
    if (!isEmpty) return // a removed element fires no event when the pointer or the focus leaves it
    setHovered(false)
    setFocused(false)
  }, [isEmpty])
  return (
    <div
      class="toasts"
      role="status"
      aria-live="polite"
      onMouseEnter={() => setHovered(true)}
      onMouseLeave={() => setHovered(false)}
      onFocusIn={() => setFocused(true)}
      onFocusOut={() => setFocused(false)}
    >
      {toasts.value.map((item) => (
        <ToastItem key={item.id} item={item} isPaused={isHovered || isFocused} close={() => close(item.id)} />
      ))}
    </div>
  )
}

function ToastItem({ item, isPaused, close }: { item: Toast; isPaused: boolean; close: () => void }) {
  useEffect(() => {
    if (isPaused) return
    const timer = setTimeout(close, item.undo ? UNDO_TOAST_MS : TOAST_MS)
    return () => clearTimeout(timer)
  }, [isPaused])
  const undo = async () => {
    close()
    try {
      await item.undo?.()
    } catch (error) {
      showError(error)
    }
  }
  return (
    <div class={item.isError ? 'toast failed' : 'toast'}>
      <span id={`toast${item.id}`}>{item.text}</span>
      {item.undo && (
        <button class="link" aria-describedby={`toast${item.id}`} onClick={undo}>
          Undo
        </button>
      )}
      <button class="link" aria-label="Close this message" aria-describedby={`toast${item.id}`} onClick={close}>
        ×
      </button>
    </div>
  )
}
