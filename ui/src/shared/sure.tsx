import { useLayoutEffect, useRef } from 'preact/hooks'

interface Question {
  title: string
  text: string
  no: string
  yes: string
  act: () => void
  leave: () => void
}

// Without autofocus, which the frame of a host refuses: the first button of a dialog gets the focus anyway.
/** Asks before what cannot be undone, such as revoking a key: one that leaked must not open anything for another second. */
export function Sure({ title, text, no, yes, act, leave }: Question) {
  const place = useRef<HTMLDialogElement>(null)
  // The first button gets the focus by itself. autofocus would be refused in the frame of a host.
  useLayoutEffect(() => {
    const before = document.activeElement as HTMLElement | null
    place.current?.showModal()
    return () => requestAnimationFrame(() => giveFocus(before))
  }, [])
  const go = () => (leave(), act())
  return (
    <dialog ref={place} aria-labelledby="sure" onClose={leave}>
      <h2 id="sure">{title}</h2>
      <p>{text}</p>
      <div class="bar">
        <button onClick={leave}>{no}</button>
        <button class="danger" onClick={go}>
          {yes}
        </button>
      </div>
    </dialog>
  )
}

/** Back to what was in use, or to the page, so that the keyboard goes on from there. */
function giveFocus(before: HTMLElement | null): void {
  if (document.activeElement !== document.body) return
  if (before?.isConnected && before !== document.body) before.focus()
  else document.getElementById('content')?.focus()
}
