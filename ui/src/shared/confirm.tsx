import { useLayoutEffect, useRef } from 'preact/hooks'

interface Props {
  title: string
  text: string
  cancelLabel: string
  confirmLabel: string
  onConfirm: () => void
  onClose: () => void
}

/** A question before an action that cannot be undone. */
export function Confirm({ title, text, cancelLabel, confirmLabel, onConfirm, onClose }: Props) {
  const dialog = useRef<HTMLDialogElement>(null)
  // The first button gets the focus by itself. autofocus is refused in the frame of a host.
  useLayoutEffect(() => {
    const previous = document.activeElement as HTMLElement | null
    dialog.current?.showModal()
    return () => requestAnimationFrame(() => restoreFocus(previous))
  }, [])
  const confirm = () => {
    onClose()
    onConfirm()
  }
  // The browser's own closing is reported later, and keys pressed in between would be ignored.
  const onKey = (event: KeyboardEvent) => {
    if (event.key !== 'Escape') return
    event.preventDefault()
    onClose()
  }
  return (
    <dialog ref={dialog} aria-labelledby="question" onKeyDown={onKey} onClose={onClose}>
      <h2 id="question">{title}</h2>
      <p>{text}</p>
      <div class="bar">
        <button onClick={onClose}>{cancelLabel}</button>
        <button class="danger" onClick={confirm}>
          {confirmLabel}
        </button>
      </div>
    </dialog>
  )
}

/** To the element that had the focus, or to the page, so that the keyboard continues there. */
function restoreFocus(previous: HTMLElement | null): void {
  if (document.activeElement !== document.body) return
  if (previous?.isConnected && previous !== document.body) previous.focus()
  else document.getElementById('content')?.focus()
}
