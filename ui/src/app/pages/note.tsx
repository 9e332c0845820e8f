import { useEffect, useRef, useState } from 'preact/hooks'
import { failed, toast } from '../../shared/toast'
import { ago, message } from '../../shared/words'
import { tool } from '../api'
import { Awaited, useLoaded } from '../loading'
import { Markdown } from '../markdown'
import { go, to, turn, where } from '../router'
import type { Slim } from './memories'

interface Linked {
  id: string
  title: string
}

interface Note {
  id: string
  namespace: string
  title: string
  content: string
  tags: string[]
  importance: number
  source: string
  client: string | null
  created_at: string
  updated_at: string
  archived: boolean
  version: number
  links?: { outgoing: Linked[]; incoming: Linked[]; dangling: string[] }
}

interface Draft {
  title: string
  content: string
  tags: string
  importance: number
  namespace: string
}

const split = (tags: string) => tags.split(/[,\s]+/).map((tag) => tag.replace(/^#/, '')).filter(Boolean)
const isOwn = (tag: string, note: Note) => !['mcp', 'memory', 'archived', note.client].includes(tag) && !tag.startsWith('ns/') && !note.content.includes('#' + tag)

export function NewNote() {
  const [trouble, setTrouble] = useState('')
  const start = { title: where.value.query.called ?? '', content: '', tags: '', importance: 0.5, namespace: '' }
  async function save(draft: Draft) {
    try {
      const made = await tool<Note>('memory_create', {
        content: draft.content,
        importance: draft.importance,
        tags: split(draft.tags),
        ...(draft.title ? { title: draft.title } : {}),
        ...(draft.namespace ? { namespace: draft.namespace } : {}),
      })
      toast('Kept')
      go(to(['memories', 'note', made.id]), true)
    } catch (error) {
      setTrouble(message(error))
    }
  }
  return (
    <>
      <h1>New note</h1>
      <Editor start={start} trouble={trouble} save={save} cancel={() => history.back()} />
    </>
  )
}

function Editor({ start, trouble, save, cancel }: { start: Draft; trouble: string; save(draft: Draft): void; cancel(): void }) {
  const [draft, setDraft] = useState(start)
  const text = useRef<HTMLTextAreaElement>(null)
  useEffect(() => text.current?.focus(), [])
  const set = (part: Partial<Draft>) => setDraft({ ...draft, ...part })
  const onKey = (event: KeyboardEvent) => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey) && draft.content.trim()) save(draft)
    else if (event.key === 'Escape') cancel()
    else return
    event.preventDefault()
  }
  return (
    <form class="editor-form" onKeyDown={onKey} onSubmit={(event) => (event.preventDefault(), save(draft))}>
      <label>Title <input value={draft.title} placeholder="the first line, if empty" maxLength={300} onInput={(event) => set({ title: event.currentTarget.value })} /></label>
      <div class="halves">
        <label>Markdown<textarea ref={text} required rows={16} value={draft.content} onInput={(event) => set({ content: event.currentTarget.value })} /></label>
        <section aria-label="Preview" class="preview" tabIndex={0}>{draft.content ? <Markdown text={draft.content} /> : <p class="mut">The preview. [[Title]] links to a note, #tag tags this one.</p>}</section>
      </div>
      <div class="bar">
        <label>Tags <input value={draft.tags} placeholder="ops, idea" onInput={(event) => set({ tags: event.currentTarget.value })} /></label>
        <label>Namespace <input value={draft.namespace} placeholder="default" onInput={(event) => set({ namespace: event.currentTarget.value })} /></label>
        <label>Importance {draft.importance.toFixed(1)} <input type="range" min={0} max={1} step={0.1} value={draft.importance} onInput={(event) => set({ importance: Number(event.currentTarget.value) })} /></label>
      </div>
      {trouble && <p class="trouble" role="alert">{trouble}</p>}
      <div class="bar">
        <button class="primary" disabled={!draft.content.trim()}>Save</button>
        <span class="keys"><kbd>Ctrl</kbd> <kbd>Enter</kbd></span>
        <button type="button" onClick={cancel}>Cancel</button>
      </div>
    </form>
  )
}

export function NotePage({ id }: { id: string }) {
  const { edit, history } = where.value.query
  const note = useLoaded(() => tool<Note>('memory_get', { id, include_links: true }), [id], { uris: (uri) => uri.endsWith(id) })
  return (
    <>
      <p><a href="/memories">Memories</a></p>
      <Awaited of={note}>
        {(found) => (edit ? <Editing note={found} done={note.again} /> : history ? <History note={found} done={note.again} /> : <Shown note={found} again={note.again} />)}
      </Awaited>
    </>
  )
}

function Editing({ note, done }: { note: Note; done(): void }) {
  const [trouble, setTrouble] = useState('')
  const own = note.tags.filter((tag) => isOwn(tag, note))
  const start = { title: note.title, content: note.content, tags: own.join(', '), importance: note.importance, namespace: note.namespace }
  async function save(draft: Draft) {
    const tags = split(draft.tags)
    try {
      await tool('memory_update', {
        id: note.id,
        ...(draft.content !== note.content ? { content: draft.content } : {}),
        ...(draft.title && draft.title !== note.title ? { title: draft.title } : {}),
        ...(draft.namespace !== note.namespace ? { namespace: draft.namespace } : {}),
        importance: draft.importance,
        add_tags: tags.filter((tag) => !own.includes(tag)),
        remove_tags: own.filter((tag) => !tags.includes(tag)),
      })
      toast('Saved')
      turn({ edit: '' }, true)
      done()
    } catch (error) {
      setTrouble(message(error))
    }
  }
  return (
    <>
      <h1>{note.title}</h1>
      <Editor start={start} trouble={trouble} save={save} cancel={() => turn({ edit: '' }, true)} />
      <Links note={note} again={done} />
    </>
  )
}

function Shown({ note, again }: { note: Note; again(): void }) {
  async function restore() {
    await tool('memory_update', { id: note.id, remove_tags: ['archived'] })
    toast(`“${note.title}” is back`)
    again()
  }
  async function remove() {
    try {
      await tool('memory_delete', { id: note.id, soft: true })
      go('/memories')
      toast(`“${note.title}” is deleted`, { undo: restore })
    } catch (error) {
      failed(error)
    }
  }
  return (
    <article class="note">
      <div class="bar heading">
        <h1>{note.title}</h1>
        <span class="space" />
        <a class="button" href={to(['memories', 'note', note.id], { edit: '1' })}>Edit</a>
        <a class="button" href={to(['memories', 'note', note.id], { history: '1' })}>History ({note.version})</a>
        <a class="button" href={to(['graph'], { note: note.id })}>Graph</a>
        {note.archived ? <button onClick={() => restore().catch(failed)}>Restore</button> : <button class="danger" onClick={remove}>Delete</button>}
      </div>
      <p class="mut">
        {note.namespace} · importance {note.importance.toFixed(1)} · {note.source === 'ui' ? 'written here' : `from ${note.client ?? note.source}`} · {ago(note.updated_at)}{note.archived ? ' · deleted' : ''}
      </p>
      <p>{note.tags.map((tag) => <a class="tag" key={tag} href={to(['memories'], { tag })}>#{tag}</a>)}</p>
      <Markdown text={note.content} />
      <Links note={note} again={again} />
    </article>
  )
}

function Links({ note, again }: { note: Note; again(): void }) {
  const links = note.links ?? { outgoing: [], incoming: [], dangling: [] }
  async function unlink(other: Linked) {
    try {
      const { unlinked } = await tool<{ unlinked: number }>('memory_unlink', { source_id: note.id, target_id: other.id })
      const undo = async () => (await tool('memory_link', { source_id: note.id, target_id: other.id }), again())
      if (unlinked) toast(`No longer linked to “${other.title}”`, { undo })
      else toast(`[[${other.title}]] in the text is the link: edit the note to remove it`)
      again()
    } catch (error) {
      failed(error)
    }
  }
  return (
    <section class="card">
      <h2>Links</h2>
      <ul class="list">
        {links.outgoing.map((other) => (
          <li key={other.id}><span class="mut">to</span> <a href={to(['memories', 'note', other.id])}>{other.title}</a> <button class="link" aria-label={`Remove the link to ${other.title}`} onClick={() => unlink(other)}>×</button></li>
        ))}
        {links.incoming.map((other) => <li key={other.id}><span class="mut">from</span> <a href={to(['memories', 'note', other.id])}>{other.title}</a></li>)}
        {links.dangling.map((title) => <li key={title}><span class="mut">to</span> <a href={to(['memories', 'new'], { called: title })}>{title}</a> <span class="mut">no note yet</span></li>)}
      </ul>
      {!links.outgoing.length && !links.incoming.length && !links.dangling.length && <p class="mut">None yet. Write [[Title]] in the text, or choose a note:</p>}
      <AddLink note={note} again={again} />
    </section>
  )
}

function AddLink({ note, again }: { note: Note; again(): void }) {
  const [typed, setTyped] = useState('')
  const [found, setFound] = useState<Slim[]>([])
  useEffect(() => {
    if (!typed.trim()) return setFound([])
    const timer = setTimeout(() => {
      tool<{ memories: Slim[] }>('memory_search', { query: typed, limit: 6 }).then(({ memories }) => setFound(memories.filter((one) => one.id !== note.id)), failed)
    }, 200)
    return () => clearTimeout(timer)
  }, [typed])
  async function link(other: Slim) {
    try {
      await tool('memory_link', { source_id: note.id, target_id: other.id })
      setTyped('')
      again()
    } catch (error) {
      failed(error)
    }
  }
  return (
    <>
      <label>Link to <input type="search" value={typed} placeholder="a note's title or words" onInput={(event) => setTyped(event.currentTarget.value)} /></label>
      {found.length > 0 && <ul class="list">{found.map((other) => <li key={other.id}><button class="link" onClick={() => link(other)}>{other.title}</button></li>)}</ul>}
    </>
  )
}

function History({ note, done }: { note: Note; done(): void }) {
  const version = Math.min(note.version, Math.max(1, Number(where.value.query.version) || note.version))
  return (
    <>
      <div class="bar heading">
        <h1>{note.title}</h1>
        <span class="space" />
        <a class="button" href={to(['memories', 'note', note.id])}>Close history</a>
      </div>
      <div class="bar">
        <button disabled={version <= 1} onClick={() => turn({ version: String(version - 1) }, true)}>Older</button>
        <span role="status">Version {version} of {note.version}</span>
        <button disabled={version >= note.version} onClick={() => turn({ version: String(version + 1) }, true)}>Newer</button>
      </div>
      <Version key={version} note={note} version={version} done={done} />
    </>
  )
}

/** One at a time, from nothing: what is restored must be what is shown. */
function Version({ note, version, done }: { note: Note; version: number; done(): void }) {
  const former = useLoaded(() => tool<Note>('memory_get', { id: note.id, ...(version < note.version ? { version } : {}) }), [], {})
  const before = useLoaded(() => (version > 1 ? tool<Note>('memory_get', { id: note.id, version: version - 1 }) : Promise.resolve(null)), [], {})
  async function restore(old: Note) {
    try {
      await tool('memory_update', { id: note.id, content: old.content, title: old.title })
      toast(`Version ${version} is the newest again`)
      turn({ history: '', version: '' })
      done()
    } catch (error) {
      failed(error)
    }
  }
  return (
    <Awaited of={former}>
      {(old) => (
        <>
          <p class="mut">{old.title} · {ago(old.updated_at)}</p>
          <Awaited of={before}>{(older) => <Difference before={older ? `${older.title}\n\n${older.content}` : ''} after={`${old.title}\n\n${old.content}`} />}</Awaited>
          {version < note.version && <p><button class="primary" onClick={() => restore(old)}>Restore version {version}</button></p>}
        </>
      )}
    </Awaited>
  )
}

/** Lines that came (+) and went (-). */
function Difference({ before, after }: { before: string; after: string }) {
  const lines = compare(before.split('\n'), after.split('\n'))
  return (
    <pre class="difference" tabIndex={0}>
      {lines.map(([mark, line], at) => {
        const Line = mark === '+' ? 'ins' : mark === '-' ? 'del' : 'span'
        return <Line key={at}>{mark} {line}{'\n'}</Line>
      })}
    </pre>
  )
}

function compare(a: string[], b: string[]): [string, string][] {
  if (a.length * b.length > 4_000_000) return b.map((line) => [' ', line])
  const common = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1))
  for (let i = a.length - 1; i >= 0; i--) for (let j = b.length - 1; j >= 0; j--) common[i]![j] = a[i] === b[j] ? common[i + 1]![j + 1]! + 1 : Math.max(common[i + 1]![j]!, common[i]![j + 1]!)
  const lines: [string, string][] = []
  let i = 0
  let j = 0
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) lines.push([' ', a[i++]!]), j++
    else if (j >= b.length || (i < a.length && common[i + 1]![j]! >= common[i]![j + 1]!)) lines.push(['-', a[i++]!])
    else lines.push(['+', b[j++]!])
  }
  return lines
}
