import { showError, toast } from '../../shared/toast'
import { ago, shortTime } from '../../shared/format'
import type { Note } from '../../shared/api-types'
import { tool } from '../api'
import { closeEditor } from '../document-editor'
import { EditConflict, Editor } from '../editor'
import { Markdown } from '../markdown'
import {
  changedFields,
  conflictingFields,
  fieldsOf,
  isSystemTag,
  newNote,
  noteText,
  type NoteFields,
} from '../note-fields'
import { noteRef } from '../refs'
import { Await, useResource } from '../resource'
import { back, navigate, route } from '../router'
import { usePageTitle } from '../title'
import { href } from '../urls'
import { originLabel } from '../writes'
import { DeleteForGood } from './delete-for-good'
import { deleteMemory, restoreMemory, useWrites, WriteList } from './memory'
import { NoteHistory } from './note-history'
import { NoteLinks } from './note-links'

const noteHref = (id: string) => href(['memories', 'note', id])

export function NewNote() {
  const { called: title = '', namespace = '' } = route.value.query
  async function save(fields: NoteFields) {
    const created = await tool('memory_create', newNote(fields))
    return () => {
      toast('Saved')
      navigate(noteHref(created.id), true)
    }
  }
  return (
    <>
      <h1>New note</h1>
      <Editor
        kind="note"
        label="New note"
        draftKey={`note:new:${title}`}
        initial={{ title, content: '', tags: '', importance: 0.5, namespace }}
        above={titleField}
        below={otherFields}
        save={save}
        textOf={noteText}
        onClose={() => back('/memories')}
      />
    </>
  )
}

type SetFields = (part: Partial<NoteFields>) => void

function titleField({ title }: NoteFields, set: SetFields) {
  return (
    <label>
      Title{' '}
      <input
        value={title}
        placeholder="the first line, if empty"
        maxLength={300}
        onInput={(event) => set({ title: event.currentTarget.value })}
      />
    </label>
  )
}

function otherFields({ tags, namespace, importance }: NoteFields, set: SetFields) {
  return (
    <div class="bar">
      <label>
        Tags{' '}
        <input
          value={tags}
          placeholder="ops, first idea"
          onInput={(event) => set({ tags: event.currentTarget.value })}
        />
      </label>
      <label>
        Namespace{' '}
        <input
          value={namespace}
          placeholder="default"
          onInput={(event) => set({ namespace: event.currentTarget.value })}
        />
      </label>
      <label>
        Importance {importance.toFixed(1)}{' '}
        <input
          type="range"
          min={0}
          max={1}
          step={0.1}
          value={importance}
          onInput={(event) => set({ importance: Number(event.currentTarget.value) })}
        />
      </label>
    </div>
  )
}

export function NotePage({ id }: { id: string }) {
  const { edit, history } = route.value.query
  const load = () => tool('memory_get', { id, include_links: true })
  const note = useResource(load, [id], { uris: (uri) => uri.endsWith(id) })
  const render = (found: Note) => {
    if (edit) return <EditNote note={found} reload={note.reload} />
    if (history) return <NoteHistory note={found} reload={note.reload} />
    return <NoteView note={found} reload={note.reload} />
  }
  return (
    <>
      <p>
        <a href="/memories">Memories</a>
      </p>
      {note.error && !(edit && note.value) && <h1>Note</h1>}
      <Await resource={note} keepStale={Boolean(edit)}>
        {render}
      </Await>
    </>
  )
}

interface Props {
  note: Note
  reload: () => void
}

function EditNote({ note, reload }: Props) {
  usePageTitle(note.title)
  const close = () => closeEditor(reload)
  async function save(fields: NoteFields, base: NoteFields, seen?: NoteFields) {
    const current = fieldsOf(await tool('memory_get', { id: note.id }))
    const conflicts = conflictingFields(seen ?? base, fields, current)
    if (conflicts.length) throw new EditConflict(current, conflicts)
    const changed = changedFields(base, fields)
    if (Object.keys(changed).length) await tool('memory_update', { id: note.id, ...changed })
    return () => {
      toast('Saved')
      close()
    }
  }
  async function saveAsNew(fields: NoteFields) {
    const created = await tool('memory_create', newNote(fields))
    return () => {
      toast('Saved as a new note')
      navigate(noteHref(created.id), true)
    }
  }
  return (
    <>
      <h1>{note.title}</h1>
      <Editor
        kind="note"
        label={`Edit ${note.title}`}
        draftKey={`note:${note.id}`}
        initial={fieldsOf(note)}
        above={titleField}
        below={otherFields}
        save={save}
        saveAsNew={saveAsNew}
        textOf={noteText}
        onClose={close}
      />
      <NoteLinks note={note} reload={reload} />
    </>
  )
}

const authorOf = (note: Note) => (note.source === 'ui' ? 'written here' : `from ${note.client ?? note.source}`)

function NoteView({ note, reload }: Props) {
  const reference = noteRef(note.id)
  const writes = useWrites(reference, note.updated_at)
  const restore = () => restoreMemory(reference, note.title).then(reload)
  usePageTitle(note.title)
  return (
    <article class="note">
      <div class="bar heading">
        <h1>{note.title}</h1>
        <span class="space" />
        <a class="button" href={href(['memories', 'note', note.id], { edit: '1' })}>
          Edit
        </a>
        <a class="button" href={href(['memories', 'note', note.id], { history: '1' })}>
          History ({note.version})
        </a>
        <a class="button" href={href(['graph'], { note: note.id })}>
          Graph
        </a>
        {note.archived ? (
          <button onClick={() => restore().catch(showError)}>Restore</button>
        ) : (
          <button onClick={() => deleteMemory(reference, note.title, 'archived')}>Archive</button>
        )}
        <DeleteForGood refs={[reference]} onDone={() => navigate('/memories')} />
      </div>
      <p class="mut">
        {note.namespace} · importance {note.importance.toFixed(1)} · {authorOf(note)} · {ago(note.updated_at)}
        {note.origin && ` · last by ${originLabel(note.origin)}`}
        {note.archived ? ' · archived' : ''}
        {note.expires_at && ` · expires ${shortTime(note.expires_at)}`}
      </p>
      {note.superseded_by && (
        <p>
          A newer note replaces this one. <a href={noteHref(note.superseded_by)}>Read the newer one</a>
        </p>
      )}
      <Tags note={note} />
      <Markdown text={note.content} namespace={note.namespace} />
      <NoteLinks note={note} reload={reload} />
      <WriteList writes={writes} />
    </article>
  )
}

/** Those of people first; those that the server adds are quiet. */
function Tags({ note }: { note: Note }) {
  const [own, others] = [
    note.tags.filter((tag) => !isSystemTag(tag, note)),
    note.tags.filter((tag) => isSystemTag(tag, note)),
  ]
  const link = (tag: string, name: string) => (
    <a class={name} key={tag} href={href(['memories'], { tag })}>
      #{tag}
    </a>
  )
  return (
    <p>
      {own.map((tag) => link(tag, 'tag'))} {others.map((tag) => link(tag, 'system-tag'))}
    </p>
  )
}
