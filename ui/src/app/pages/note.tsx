import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks'
import { useDraft, type Draft } from '../../shared/draft'
import { Sure } from '../../shared/sure'
import { failed, toast } from '../../shared/toast'
import { ago, message } from '../../shared/words'
import { Refused, tool } from '../api'
import { Awaited, useLoaded } from '../loading'
import { Markdown } from '../markdown'
import { back, go, to, turn, where } from '../router'
import { useTitle } from '../title'
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

/** What the editor has fields for. */
interface Fields {
  title: string
  content: string
  tags: string
  importance: number
  namespace: string
}

const SYSTEM = ['mcp', 'memory', 'archived']
const INLINE_TAG = /(?<![^\s(\[{"'_*~>,;:–—-])#([^\s#.,;:!?()[\]{}<>"'`*|\\@=&%$^~+]+)/g // as the server reads them
const LONG = 20_000 // characters from which on the preview waits until nobody types
const PAUSE = 400 // milliseconds

const split = (tags: string) =>
  tags
    .split(/[,\n]|\s(?=#)/)
    .map((tag) => tag.trim().replace(/^#/, ''))
    .filter(Boolean)
const folded = (tag: string) => tag.toLowerCase()

/** Tags that stand in the text, or that the server gives, are not for the field: removing them there would do nothing. */
function ownTags(note: Note): string[] {
  const said = note.content.replace(/^(```|~~~)[^]*?(^\1|(?![^]))|`[^`\n]*`/gm, ' ')
  const inText = new Set(
    Array.from(said.matchAll(INLINE_TAG), ([, tag]) => folded(tag!.replace(/^[/_-]+|[/_-]+$/g, ''))),
  )
  return note.tags.filter(
    (tag) => !SYSTEM.includes(tag) && tag !== note.client && !tag.startsWith('ns/') && !inText.has(folded(tag)),
  )
}

const fieldsOf = (note: Note): Fields => ({
  title: note.title,
  content: note.content,
  tags: ownTags(note).join(', '),
  importance: note.importance,
  namespace: note.namespace,
})

const left = () => toast('Not saved yet: what you wrote waits where you wrote it')

/** Does one thing at a time: who presses twice means it once. */
function useOnce(): [boolean, (act: () => Promise<void>) => Promise<void>] {
  const isUnderWay = useRef(false)
  const [isBusy, setBusy] = useState(false)
  return [
    isBusy,
    async (act) => {
      if (isUnderWay.current) return
      isUnderWay.current = true
      setBusy(true)
      try {
        await act()
      } finally {
        isUnderWay.current = false
        setBusy(false)
      }
    },
  ]
}

const create = (fields: Fields) =>
  tool<Note>('memory_create', {
    content: fields.content,
    importance: fields.importance,
    tags: split(fields.tags),
    ...(fields.title ? { title: fields.title } : {}),
    ...(fields.namespace ? { namespace: fields.namespace } : {}),
  })

export function NewNote() {
  const { called = '', namespace = '' } = where.value.query
  const draft = useDraft<Fields>(
    `note:new:${called}`,
    { title: called, content: '', tags: '', importance: 0.5, namespace },
    left,
  )
  const [trouble, setTrouble] = useState('')
  const [isBusy, once] = useOnce()
  const save = () =>
    once(async () => {
      try {
        const made = await create(draft.draft)
        draft.forget()
        toast('Kept')
        go(to(['memories', 'note', made.id]), true)
      } catch (error) {
        setTrouble(message(error))
      }
    })
  return (
    <>
      <h1>New note</h1>
      <Editor of={draft} trouble={trouble} isBusy={isBusy} save={save} leave={() => back('/memories')} />
    </>
  )
}

function Editor({
  of,
  trouble,
  isBusy,
  save,
  leave,
}: {
  of: Draft<Fields>
  trouble: string
  isBusy: boolean
  save: () => void
  leave: () => void
}) {
  const { draft } = of
  const [isSure, setSure] = useState(false)
  const text = useRef<HTMLTextAreaElement>(null)
  useLayoutEffect(() => text.current?.focus(), []) // before it is seen: later it would take the focus from another field
  const set = (part: Partial<Fields>) => of.set({ ...draft, ...part })
  const cancel = () => (of.isChanged ? setSure(true) : leave())
  const onKey = (event: KeyboardEvent) => {
    if (event.isComposing) return
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey) && draft.content.trim()) save()
    else if (event.key === 'Escape') cancel()
    else return
    event.preventDefault()
  }
  return (
    <>
      {isSure && (
        <Sure
          title="Discard what you wrote?"
          text="It was not saved."
          no="Go on writing"
          yes="Discard"
          act={() => (of.forget(), leave())}
          leave={() => setSure(false)}
        />
      )}
      {of.isBack && of.isChanged && (
        <p role="status">
          What you wrote before is here again.{' '}
          <button class="link" onClick={() => of.forget()}>
            Discard it
          </button>
        </p>
      )}
      <form class="editor-form" onKeyDown={onKey} onSubmit={(event) => (event.preventDefault(), save())}>
        <label>
          Title{' '}
          <input
            value={draft.title}
            placeholder="the first line, if empty"
            maxLength={300}
            onInput={(event) => set({ title: event.currentTarget.value })}
          />
        </label>
        <div class="halves">
          <label>
            Markdown
            <textarea
              ref={text}
              required
              rows={16}
              value={draft.content}
              onInput={(event) => set({ content: event.currentTarget.value })}
            />
          </label>
          <Preview text={draft.content} />
        </div>
        <div class="bar">
          <label>
            Tags{' '}
            <input
              value={draft.tags}
              placeholder="ops, first idea"
              onInput={(event) => set({ tags: event.currentTarget.value })}
            />
          </label>
          <label>
            Namespace{' '}
            <input
              value={draft.namespace}
              placeholder="default"
              onInput={(event) => set({ namespace: event.currentTarget.value })}
            />
          </label>
          <label>
            Importance {draft.importance.toFixed(1)}{' '}
            <input
              type="range"
              min={0}
              max={1}
              step={0.1}
              value={draft.importance}
              onInput={(event) => set({ importance: Number(event.currentTarget.value) })}
            />
          </label>
        </div>
        {trouble && (
          <p class="trouble" role="alert">
            {trouble}
          </p>
        )}
        <div class="bar">
          <button class="primary" disabled={isBusy || !draft.content.trim()}>
            {isBusy ? 'Saving…' : 'Save'}
          </button>
          <span class="keys">
            <kbd>Ctrl</kbd> <kbd>Enter</kbd>
          </span>
          <button type="button" onClick={cancel}>
            Cancel
          </button>
        </div>
      </form>
    </>
  )
}

function Preview({ text }: { text: string }) {
  const [shown, setShown] = useState(text)
  useEffect(() => {
    const timer = setTimeout(() => setShown(text), text.length > LONG ? PAUSE : 0)
    return () => clearTimeout(timer)
  }, [text])
  const drawn = useMemo(() => <Markdown text={shown} />, [shown]) // the same element is not looked through again
  return (
    <section aria-label="Preview" class="preview" tabIndex={0}>
      {shown ? drawn : <p class="mut">The preview. [[Title]] links to a note, #tag tags this one.</p>}
    </section>
  )
}

export function NotePage({ id }: { id: string }) {
  const { edit, history } = where.value.query
  const note = useLoaded(() => tool<Note>('memory_get', { id, include_links: true }), [id], {
    uris: (uri) => uri.endsWith(id),
  })
  return (
    <>
      <p>
        <a href="/memories">Memories</a>
      </p>
      {note.trouble && !(edit && note.value) && <h1>Note</h1>}
      <Awaited of={note} keep={Boolean(edit)}>
        {(found) =>
          edit ? (
            <Editing note={found} done={note.again} />
          ) : history ? (
            <History note={found} done={note.again} />
          ) : (
            <Shown note={found} again={note.again} />
          )
        }
      </Awaited>
    </>
  )
}

const NAMES: Partial<Record<keyof Fields, string>> = {
  title: 'title',
  content: 'text',
  importance: 'importance',
  namespace: 'namespace',
} // tags of two people go together

/** What I changed, and nothing else: the rest may be newer than what I see. */
function changes(base: Fields, mine: Fields): Record<string, unknown> {
  const [before, after] = [split(base.tags), split(mine.tags)]
  const without = (tags: string[], others: string[]) =>
    tags.filter((tag) => !others.some((other) => folded(other) === folded(tag)))
  const [added, removed] = [without(after, before), without(before, after)]
  return {
    ...(mine.content !== base.content ? { content: mine.content } : {}),
    ...(mine.title && mine.title !== base.title ? { title: mine.title } : {}),
    ...(mine.namespace !== base.namespace ? { namespace: mine.namespace } : {}),
    ...(mine.importance !== base.importance ? { importance: mine.importance } : {}),
    ...(added.length ? { add_tags: added } : {}),
    ...(removed.length ? { remove_tags: removed } : {}),
  }
}

const clashing = (base: Fields, mine: Fields, theirs: Fields) =>
  (Object.keys(NAMES) as (keyof Fields)[]).filter(
    (name) => mine[name] !== base[name] && theirs[name] !== base[name] && theirs[name] !== mine[name],
  )

function Editing({ note, done }: { note: Note; done: () => void }) {
  const draft = useDraft(`note:${note.id}`, fieldsOf(note), left)
  const [trouble, setTrouble] = useState('')
  const [theirs, setTheirs] = useState<Fields | null>(null)
  const [isGone, setGone] = useState(false)
  const [isBusy, once] = useOnce()
  const leave = () => turn({ edit: '' }, true)
  useTitle(note.title)
  /** `seen` is what somebody else wrote and I am about to overwrite. */
  const save = (seen?: Fields) =>
    once(async () => {
      const { base, draft: mine } = draft
      setTrouble('')
      try {
        const now = fieldsOf(await tool<Note>('memory_get', { id: note.id }))
        if (clashing(seen ?? base, mine, now).length) return setTheirs(now)
        await tool('memory_update', { id: note.id, ...changes(base, mine) })
        draft.forget()
        toast('Saved')
        leave()
        done()
      } catch (error) {
        setGone(error instanceof Refused && error.status === 404)
        setTrouble(message(error))
      }
    })
  const saveAnew = () =>
    once(async () => {
      try {
        const made = await create(draft.draft)
        draft.forget()
        toast('Kept as a new note')
        go(to(['memories', 'note', made.id]), true)
      } catch (error) {
        setTrouble(message(error))
      }
    })
  const takeTheirs = () => {
    draft.forget()
    leave()
    done()
  }
  return (
    <>
      <h1>{note.title}</h1>
      {theirs && (
        <section class="card" role="alert" aria-label="Changed meanwhile">
          <p>
            The{' '}
            {clashing(draft.base, draft.draft, theirs)
              .map((name) => NAMES[name])
              .join(' and the ')}{' '}
            of this note changed since you began. What was written meanwhile (+) beside yours (-):
          </p>
          <Difference before={whole(draft.draft)} after={whole(theirs)} />
          <div class="bar">
            <button class="danger" onClick={() => (setTheirs(null), save(theirs))}>
              Overwrite with mine
            </button>
            <button onClick={takeTheirs}>Discard mine</button>
            <button onClick={() => setTheirs(null)}>Go on writing</button>
          </div>
        </section>
      )}
      {isGone && (
        <p role="alert">
          This note is deleted. <button onClick={saveAnew}>Save as a new note</button>
        </p>
      )}
      <Editor of={draft} trouble={trouble} isBusy={isBusy} save={() => save()} leave={leave} />
      <Links note={note} again={done} />
    </>
  )
}

function Shown({ note, again }: { note: Note; again: () => void }) {
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
  useTitle(note.title)
  return (
    <article class="note">
      <div class="bar heading">
        <h1>{note.title}</h1>
        <span class="space" />
        <a class="button" href={to(['memories', 'note', note.id], { edit: '1' })}>
          Edit
        </a>
        <a class="button" href={to(['memories', 'note', note.id], { history: '1' })}>
          History ({note.version})
        </a>
        <a class="button" href={to(['graph'], { note: note.id })}>
          Graph
        </a>
        {note.archived ? (
          <button onClick={() => restore().catch(failed)}>Restore</button>
        ) : (
          <button class="danger" onClick={remove}>
            Delete
          </button>
        )}
      </div>
      <p class="mut">
        {note.namespace} · importance {note.importance.toFixed(1)} ·{' '}
        {note.source === 'ui' ? 'written here' : `from ${note.client ?? note.source}`} · {ago(note.updated_at)}
        {note.archived ? ' · deleted' : ''}
      </p>
      <p>
        {note.tags.map((tag) => (
          <a class="tag" key={tag} href={to(['memories'], { tag })}>
            #{tag}
          </a>
        ))}
      </p>
      <Markdown text={note.content} namespace={note.namespace} />
      <Links note={note} again={again} />
    </article>
  )
}

function Links({ note, again }: { note: Note; again: () => void }) {
  const links = note.links ?? { outgoing: [], incoming: [], dangling: [] }
  async function unlink(other: Linked) {
    try {
      const { unlinked } = await tool<{ unlinked: number }>('memory_unlink', {
        source_id: note.id,
        target_id: other.id,
      })
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
          <li key={other.id}>
            <span class="mut">to</span> <a href={to(['memories', 'note', other.id])}>{other.title}</a>{' '}
            <button class="link" aria-label={`Remove the link to ${other.title}`} onClick={() => unlink(other)}>
              ×
            </button>
          </li>
        ))}
        {links.incoming.map((other) => (
          <li key={other.id}>
            <span class="mut">from</span> <a href={to(['memories', 'note', other.id])}>{other.title}</a>
          </li>
        ))}
        {links.dangling.map((title) => (
          <li key={title}>
            <span class="mut">to</span>{' '}
            <a href={to(['memories', 'new'], { called: title, namespace: note.namespace })}>{title}</a>{' '}
            <span class="mut">no note yet</span>
          </li>
        ))}
      </ul>
      {!links.outgoing.length && !links.incoming.length && !links.dangling.length && (
        <p class="mut">None yet. Write [[Title]] in the text, or choose a note:</p>
      )}
      <AddLink note={note} again={again} />
    </section>
  )
}

function AddLink({ note, again }: { note: Note; again: () => void }) {
  const [typed, setTyped] = useState('')
  const [found, setFound] = useState<Slim[]>([])
  useEffect(() => {
    if (!typed.trim()) return setFound([])
    const timer = setTimeout(() => {
      tool<{ memories: Slim[] }>('memory_search', { query: typed, limit: 6 }).then(
        ({ memories }) => setFound(memories.filter((one) => one.id !== note.id)),
        failed,
      )
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
      <label>
        Link to{' '}
        <input
          type="search"
          value={typed}
          placeholder="a note's title or words"
          onInput={(event) => setTyped(event.currentTarget.value)}
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

/** All that a version says, as text to compare: only tags or the importance may have changed. */
const whole = (of: Omit<Fields, 'tags'> & { tags: string | string[] }) =>
  `${of.title}\n\n${of.content}\n\ntags: ${typeof of.tags === 'string' ? of.tags : of.tags.join(', ')}\nimportance: ${of.importance}\nnamespace: ${of.namespace}`

function History({ note, done }: { note: Note; done: () => void }) {
  useTitle(note.title)
  const version = Math.min(note.version, Math.max(1, Number(where.value.query.version) || note.version))
  return (
    <>
      <div class="bar heading">
        <h1>{note.title}</h1>
        <span class="space" />
        <a class="button" href={to(['memories', 'note', note.id])}>
          Close history
        </a>
      </div>
      <div class="bar">
        <button disabled={version <= 1} onClick={() => turn({ version: String(version - 1) }, true)}>
          Older
        </button>
        <span role="status">
          Version {version} of {note.version}
        </span>
        <button disabled={version >= note.version} onClick={() => turn({ version: String(version + 1) }, true)}>
          Newer
        </button>
      </div>
      <Version key={version} note={note} version={version} done={done} />
    </>
  )
}

/** One at a time, from nothing: what is restored must be what is shown. */
function Version({ note, version, done }: { note: Note; version: number; done: () => void }) {
  const former = useLoaded(
    () => tool<Note>('memory_get', { id: note.id, ...(version < note.version ? { version } : {}) }),
    [],
    {},
  )
  const before = useLoaded(
    () => (version > 1 ? tool<Note>('memory_get', { id: note.id, version: version - 1 }) : Promise.resolve(null)),
    [],
    {},
  )
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
          <p class="mut">
            {old.title} · {ago(old.updated_at)}
          </p>
          <Awaited of={before}>
            {(older) => <Difference before={older ? whole(older) : ''} after={whole(old)} />}
          </Awaited>
          {version < note.version && (
            <p>
              <button class="primary" onClick={() => restore(old)}>
                Restore version {version}
              </button>
            </p>
          )}
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
        return (
          <Line key={at}>
            {mark} {line}
            {'\n'}
          </Line>
        )
      })}
    </pre>
  )
}

function compare(a: string[], b: string[]): [string, string][] {
  if (a.length * b.length > 4_000_000) return b.map((line) => [' ', line])
  const common = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1))
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1; j >= 0; j--)
      common[i]![j] = a[i] === b[j] ? common[i + 1]![j + 1]! + 1 : Math.max(common[i + 1]![j]!, common[i]![j + 1]!)
  const lines: [string, string][] = []
  let i = 0
  let j = 0
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) (lines.push([' ', a[i++]!]), j++)
    else if (j >= b.length || (i < a.length && common[i + 1]![j]! >= common[i]![j + 1]!)) lines.push(['-', a[i++]!])
    else lines.push(['+', b[j++]!])
  }
  return lines
}
