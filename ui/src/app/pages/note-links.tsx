import { useEffect, useState } from 'preact/hooks'
import type { Note, ToolResult } from '../../shared/api-types'
import { showError, toast } from '../../shared/toast'
import { tool } from '../api'
import { href } from '../urls'

type Linked = NonNullable<Note['links']>['outgoing'][number]
type Found = ToolResult<'memory_search'>['memories'][number]

const SEARCH_DELAY_MS = 200
const MAX_FOUND = 6
const NO_LINKS = { outgoing: [], incoming: [], dangling: [] }

interface Props {
  note: Note
  reload: () => void
}

export function NoteLinks({ note, reload }: Props) {
  const { outgoing, incoming, dangling } = note.links ?? NO_LINKS
  async function unlink(other: Linked) {
    const ends = { source_id: note.id, target_id: other.id }
    const undo = async () => {
      await tool('memory_link', ends)
      reload()
    }
    try {
      const { unlinked } = await tool('memory_unlink', ends)
      if (unlinked) toast(`No longer linked to “${other.title}”`, { undo })
      else toast(`[[${other.title}]] in the text is the link: edit the note to remove it`)
      reload()
    } catch (error) {
      showError(error)
    }
  }
  return (
    <section class="card">
      <h2>Links</h2>
      <ul class="list">
        {outgoing.map((other) => (
          <li key={other.id}>
            <span class="mut">to</span> <a href={href(['memories', 'note', other.id])}>{other.title}</a>{' '}
            <button class="link" aria-label={`Remove the link to ${other.title}`} onClick={() => unlink(other)}>
              ×
            </button>
          </li>
        ))}
        {incoming.map((other) => (
          <li key={other.id}>
            <span class="mut">from</span> <a href={href(['memories', 'note', other.id])}>{other.title}</a>
          </li>
        ))}
        {dangling.map((title) => (
          <li key={title}>
            <span class="mut">to</span>{' '}
            <a href={href(['memories', 'new'], { called: title, namespace: note.namespace })}>{title}</a>{' '}
            <span class="mut">no note yet</span>
          </li>
        ))}
      </ul>
      {!outgoing.length && !incoming.length && !dangling.length && (
        <p class="mut">None yet. Write [[Title]] in the text, or choose a note:</p>
      )}
      <AddLink note={note} reload={reload} />
    </section>
  )
}

function AddLink({ note, reload }: Props) {
  const [text, setText] = useState('')
  const [found, setFound] = useState<Found[]>([])
  useEffect(() => {
    if (!text.trim()) return setFound([])
    const timer = setTimeout(() => {
      tool('memory_search', { query: text, limit: MAX_FOUND }).then(
        ({ memories }) => setFound(memories.filter((other) => other.id !== note.id)),
        showError,
      )
    }, SEARCH_DELAY_MS)
    return () => clearTimeout(timer)
  }, [text])
  async function link(other: Found) {
    try {
      await tool('memory_link', { source_id: note.id, target_id: other.id })
      setText('')
      reload()
    } catch (error) {
      showError(error)
    }
  }
  return (
    <>
      <label>
        Link to{' '}
        <input
          type="search"
          value={text}
          placeholder="a note's title or words"
          onInput={(event) => setText(event.currentTarget.value)}
        />
      </label>
      {found.length > 0 && (
        <ul class="list">
          {found.map((other) => (
            <li key={other.id}>
              <button class="link" onClick={() => link(other)}>
                {other.title}
              </button>
            </li>
          ))}
        </ul>
      )}
    </>
  )
}
