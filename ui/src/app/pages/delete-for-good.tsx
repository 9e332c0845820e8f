import { useState } from 'preact/hooks'
import { Confirm } from '../../shared/confirm'
import { plural } from '../../shared/format'
import { deleteForGood } from '../selection'

interface Props {
  refs: string[] // of notes
  isDisabled?: boolean
  onDone?: () => void
}

/** Erases notes, after a question. */
export function DeleteForGood({ refs, isDisabled, onDone }: Props) {
  const [isAsked, setAsked] = useState(false)
  const what = plural(refs.length, 'note')
  return (
    <>
      <button class="danger" disabled={isDisabled} onClick={() => setAsked(true)}>
        Delete for good…
      </button>
      {isAsked && (
        <Confirm
          title={`Delete ${what} for good?`}
          text="Their texts, former versions and links are erased. It cannot be undone."
          cancelLabel="Keep them"
          confirmLabel={`Delete ${what} for good`}
          onConfirm={() => deleteForGood(refs).then(onDone)}
          onClose={() => setAsked(false)}
        />
      )}
    </>
  )
}
