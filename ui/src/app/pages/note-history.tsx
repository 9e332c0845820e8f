import type { Note } from '../../shared/api-types'
import { ago } from '../../shared/format'
import { showError, toast } from '../../shared/toast'
import { tool } from '../api'
import { Difference } from '../difference'
import { fieldsOf, noteText, ownTags } from '../note-fields'
import { Await, useResource } from '../resource'
import { route, setQuery } from '../router'
import { usePageTitle } from '../title'
import { href } from '../urls'

interface Props {
  note: Note
  reload: () => void
}

export function NoteHistory({ note, reload }: Props) {
  usePageTitle(note.title)
  const version = Math.min(note.version, Math.max(1, Number(route.value.query.version) || note.version))
  return (
    <>
      <div class="bar heading">
        <h1>{note.title}</h1>
        <span class="space" />
        <a class="button" href={href(['memories', 'note', note.id])}>
          Close history
        </a>
      </div>
      <div class="bar">
        <button disabled={version <= 1} onClick={() => setQuery({ version: String(version - 1) }, true)}>
          Older
        </button>
        <span role="status">
          Version {version} of {note.version}
        </span>
        <button disabled={version >= note.version} onClick={() => setQuery({ version: String(version + 1) }, true)}>
          Newer
        </button>
      </div>
      <Version key={version} note={note} version={version} reload={reload} />
    </>
  )
}

const textOf = (note: Note) => noteText({ ...fieldsOf(note), tags: note.tags.join(', ') })

/** Mounted for each version, without the former one's data: Restore must restore what is on the page. */
function Version({ note, version, reload }: Props & { version: number }) {
  const load = (wanted: number) =>
    tool('memory_get', { id: note.id, ...(wanted < note.version ? { version: wanted } : {}) })
  const shown = useResource(() => load(version), [], {})
  const previous = useResource(() => (version > 1 ? load(version - 1) : Promise.resolve(null)), [], {})
  async function restore(old: Note) {
    try {
      await tool('memory_update', {
        id: note.id,
        content: old.content,
        title: old.title,
        tags: ownTags(old),
        namespace: old.namespace,
        ...(old.archived ? {} : { importance: old.importance }),
      })
      toast(`Version ${version} is restored`)
      setQuery({ history: '', version: '' })
      reload()
    } catch (error) {
      showError(error)
    }
  }
  return (
    <Await resource={shown}>
      {(old) => (
        <>
          <p class="mut">
            {old.title} · {ago(old.updated_at)}
          </p>
          <Await resource={previous}>
            {(older) => <Difference before={older ? textOf(older) : ''} after={textOf(old)} />}
          </Await>
          {version < note.version && (
            <p>
              <button class="primary" onClick={() => restore(old)}>
                Restore version {version}
              </button>
            </p>
          )}
        </>
      )}
    </Await>
  )
}
