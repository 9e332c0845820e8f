import { useRef, useState } from 'preact/hooks'

/** For `ref`: focus an element when it appears. autofocus works once in a page, and never in the frame of a host. */
export const focus = (element: HTMLElement | null) => element?.focus()

interface Props {
  kind: 'table' | 'portal'
  name: string
  onConfirm: () => Promise<void>
}

/** A table or a portal cannot be restored, so the user has to type its name. Not a form: a sandbox may refuse to submit
 *  one. */
export function DeletePermanently({ kind, name, onConfirm }: Props) {
  const [isBusy, setBusy] = useState(false)
  const [isOpen, setOpen] = useState(false)
  const [text, setText] = useState('')
  const opener = useRef<HTMLButtonElement>(null)
  const close = () => {
    setOpen(false)
    setText('')
    requestAnimationFrame(() => opener.current?.focus())
  }
  const run = async () => {
    if (isBusy || text !== name) return
    setBusy(true)
    await onConfirm()
    setBusy(false)
  }
  if (!isOpen) {
    return (
      <button ref={opener} class="danger" onClick={() => setOpen(true)}>
        Delete {kind}…
      </button>
    )
  }
  return (
    <div
      class="bar"
      role="group"
      aria-label={`Delete the ${kind}`}
      onKeyDown={(event) => event.key === 'Escape' && close()}
    >
      <label>
        Type <b>{name}</b> to delete {kind === 'portal' ? 'it and all its tables' : 'it'} permanently{' '}
        <input
          ref={focus}
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
          onKeyDown={(event) => event.key === 'Enter' && void run()}
        />
      </label>
      <button class="danger" disabled={isBusy || text !== name} onClick={run}>
        Delete
      </button>
      <button onClick={close}>Keep it</button>
    </div>
  )
}
