// A document that exists, such as a file, a fact or an entity, and its editor: saving, conflicts, deletions meanwhile.
import type { ComponentChildren } from 'preact'
import { toast } from '../shared/toast'
import { ApiError } from './api'
import { EditConflict, Editor, type Kind } from './editor'
import { Await, type Resource } from './resource'
import { route, setQuery } from './router'

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
  reload: () => void
}

/** Show the document that the address names again, as it is now. */
export function closeEditor(reload: () => void): void {
  setQuery({ edit: '' }, true)
  reload()
}

interface DocumentProps<T> {
  title: string // while nothing is loaded
  resource: Resource<T>
  view: (value: T) => ComponentChildren
  edit: (value: T) => ComponentChildren
}

/** A document to read or, as the address says, to edit: what the user writes stays when a reload fails. */
export function DocumentPage<T>({ title, resource, view, edit }: DocumentProps<T>) {
  const isEditing = Boolean(route.value.query.edit)
  return (
    <>
      {resource.error && !(isEditing && resource.value) && <h1>{title}</h1>}
      <Await resource={resource} keepStale={isEditing}>
        {isEditing ? edit : view}
      </Await>
    </>
  )
}

export function DocumentEditor<F extends { content: string }>(props: Props<F>) {
  const { kind, title, draftKey, initial, mayBeEmpty, part = 'text', load, update, create, reload } = props
  const close = () => closeEditor(reload)
  const finish = () => {
    toast('Saved')
    close()
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
      onClose={close}
    />
  )
}
