// The editor of a document that exists, such as a file, a fact or an entity: saving, a conflict, a deletion meanwhile.
import { toast } from '../shared/toast'
import { ApiError } from './api'
import { EditConflict, Editor, type Kind } from './editor'

interface Props<F extends { content: string }> {
  kind: Kind
  title: string
  draftKey: string
  initial: F
  mayBeEmpty?: boolean
  /** What the user edits, as the message of a conflict names it. */
  part?: string
  /** The document as it is now. */
  load: () => Promise<F>
  /** Save the fields. The server refuses with the code `changed` if the document is no longer as in `seen`. */
  update: (fields: F, seen: F) => Promise<unknown>
  /** For a document that was deleted meanwhile. */
  create: (fields: F) => Promise<unknown>
  onClose: () => void
}

export function DocumentEditor<F extends { content: string }>(props: Props<F>) {
  const { kind, title, draftKey, initial, mayBeEmpty, part = 'text', load, update, create, onClose } = props
  const finish = () => {
    toast('Saved')
    onClose()
  }
  async function save(fields: F, base: F, seen = base) {
    try {
      await update(fields, seen)
    } catch (error) {
      if (!(error instanceof ApiError && error.code === 'changed')) throw error
      throw new EditConflict(await load(), [part])
    }
    return finish
  }
  async function saveAsNew(fields: F) {
    await create(fields)
    return finish
  }
  return (
    <Editor
      kind={kind}
      label={`Edit ${title}`}
      draftKey={draftKey}
      initial={initial}
      mayBeEmpty={mayBeEmpty}
      save={save}
      saveAsNew={saveAsNew}
      textOf={({ content }) => content}
      onClose={onClose}
    />
  )
}
