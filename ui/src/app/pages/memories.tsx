import { useEffect, useRef, useState } from 'preact/hooks'
import { failed } from '../../shared/toast'
import { ago, plural } from '../../shared/words'
import { get, open, tool } from '../api'
import { MEMORIES } from '../live'
import { Awaited, useLoaded } from '../loading'
import { Markdown } from '../markdown'
import { address, noteRef, type Write } from '../refs'
import { decoded, go, to, turn, where } from '../router'
import { useTitle } from '../title'
import { Filters, filtersOf, type Wish } from './filters'
import { NewNote, NotePage } from './note'

const FAMILIES = ['notes', 'vault', 'stores', 'graph', 'portals']
const PAGE = 50

export interface Slim {
  id: string
  title: string
  snippet: string
  namespace: string
  tags: string[]
  updated_at: string | null
}

interface Hit {
  family: string
  ref: string
  title: string
  snippet: string
  why?: string
  more?: string
}

interface Found {
  key: string // of the question it answers
  hits: Hit[]
  incomplete: { family: string; error: string }[]
  next: string | null
}

async function search(key: string, q: string, family: string, wish: Wish): Promise<Found> {
  const { tag, ...others } = wish
  if (Object.values(others).some(Boolean) || family === 'notes' || (!q && !family))
    return { key, incomplete: [], ...(await notes(q, wish)) }
  if (q)
    return {
      key,
      next: null,
      ...(await tool<{ hits: Hit[]; incomplete: [] }>('recall_memories', {
        query: q,
        limit: PAGE,
        ...(family ? { families: [family] } : {}),
        ...(tag ? { tags: [tag] } : {}),
      })),
    }
  const { writes, incomplete } = await get<{ writes: Write[]; incomplete: [] }>(
    `/api/recent?limit=100&family=${family}`,
  )
  return {
    key,
    next: null,
    incomplete,
    hits: writes.map((one) => ({ family: one.family, ref: one.ref, title: one.title, snippet: '', more: ago(one.at) })),
  }
}

async function notes(q: string, wish: Wish, after = ''): Promise<Pick<Found, 'hits' | 'next'>> {
  const asked = Object.entries({ q, after, limit: String(PAGE), ...wish }).filter(([, value]) => value)
  const page = await get<{ notes: Slim[]; next: string | null }>('/api/notes?' + new URLSearchParams(asked))
  const hits = page.notes.map((note) => ({
    family: 'notes',
    ref: noteRef(note.id),
    title: note.title,
    snippet: note.snippet,
    more: note.updated_at ? `${note.namespace} · ${ago(note.updated_at)}` : '',
  }))
  return { hits, next: page.next }
}

export function Memories() {
  const [, part, id] = where.value.path
  if (part === 'new') return <NewNote />
  if (part === 'note' && id) return <NotePage key={id} id={id} />
  if (part === 'open') return <Opened key={where.value.query.ref} reference={where.value.query.ref ?? ''} />
  if (where.value.query.title)
    return (
      <ByTitle key={where.value.query.title} title={where.value.query.title} namespace={where.value.query.namespace} />
    )
  return <Searching />
}

/** The note that has a title, first of all in the namespace of the note that names it. */
async function titled(title: string, namespace: string | undefined): Promise<Slim | undefined> {
  const find = async (asked: Record<string, string>) =>
    (await get<{ notes: Slim[] }>('/api/notes?' + new URLSearchParams({ title, limit: '1', ...asked }))).notes[0]
  return (namespace && (await find({ namespace }))) || find({})
}

/** A [[Title]]: the note that has it, or a new one. */
function ByTitle({ title, namespace }: { title: string; namespace: string | undefined }) {
  useEffect(() => {
    titled(title, namespace).then(
      (found) =>
        go(found ? to(['memories', 'note', found.id]) : to(['memories', 'new'], { called: title, namespace }), true),
      failed,
    )
  }, [])
  return <h1>{title}</h1>
}

function Searching() {
  const { q = '', family = '' } = where.value.query
  const wish = filtersOf(where.value.query)
  const key = JSON.stringify([q, family, wish])
  const box = useRef<HTMLInputElement>(null)
  const list = useRef<HTMLDivElement>(null)
  const [typed, setTyped] = useState(q)
  const found = useLoaded(() => search(key, q, family, wish), [key], { ...MEMORIES, topics: ['stores', 'graph'] })
  useEffect(() => setTyped(q), [q])
  useEffect(() => {
    if (typed === q) return
    const timer = setTimeout(() => turn({ q: typed }, true), 200)
    return () => clearTimeout(timer)
  }, [typed])
  const move = (event: KeyboardEvent) => {
    if (
      (event.key !== 'ArrowDown' && event.key !== 'ArrowUp') ||
      (event.target as Element).matches('select, [type=date]')
    )
      return
    const links = [...(list.current?.querySelectorAll<HTMLAnchorElement>('a.hit') ?? [])]
    const at = links.indexOf(document.activeElement as HTMLAnchorElement)
    const next = event.key === 'ArrowDown' ? at + 1 : at - 1
    event.preventDefault()
    if (next < 0) box.current?.focus()
    else links[next]?.focus()
  }
  const isNarrowed = Boolean(q || family || Object.values(wish).some(Boolean))
  return (
    <>
      <div class="bar heading">
        <h1>Memories</h1>
        <span class="space" />
        <a class="button primary" href="/memories/new">
          New note
        </a>
      </div>
      <div onKeyDown={move}>
        <div class="bar" role="search">
          <input
            ref={box}
            data-search
            class="wide"
            type="search"
            aria-label="Search everything"
            placeholder="Search everything: words or a question"
            value={typed}
            onInput={(event) => setTyped(event.currentTarget.value)}
          />
          <select aria-label="Family" value={family} onChange={(event) => turn({ family: event.currentTarget.value })}>
            <option value="">all families</option>
            {FAMILIES.map((name) => (
              <option key={name} value={name}>
                {name}
              </option>
            ))}
          </select>
        </div>
        <Filters wish={wish} />
        <Awaited of={found}>
          {(now) => (
            <div ref={list}>
              {now.incomplete.map((one) => (
                <p class="mut" key={one.family}>
                  {one.family}: {one.error}
                </p>
              ))}
              {now.hits.length ? (
                <Hits key={now.key} now={now} more={(after) => notes(q, wish, after)} />
              ) : isNarrowed ? (
                <p class="empty">
                  Nothing found.{' '}
                  <button
                    class="link"
                    onClick={() => {
                      setTyped('')
                      go('/memories')
                    }}
                  >
                    Clear the search
                  </button>
                </p>
              ) : (
                <p class="empty">
                  Nothing is kept yet. <a href="/keys">Connect a client</a>, or <a href="/memories/new">write a note</a>
                  .
                </p>
              )}
            </div>
          )}
        </Awaited>
      </div>
    </>
  )
}

/** What was found stays where it is while one reads; what others add waits until it is asked for. */
function Hits({ now, more }: { now: Found; more: (after: string) => Promise<Pick<Found, 'hits' | 'next'>> }) {
  const [shown, setShown] = useState({ hits: now.hits, next: now.next })
  const list = useRef<HTMLUListElement>(null)
  const newest = new Map(now.hits.map((hit) => [hit.ref, hit]))
  const known = new Set(shown.hits.map((hit) => hit.ref))
  const added = now.hits.filter((hit) => !known.has(hit.ref)).length
  const kept = shown.hits.flatMap((hit) => newest.get(hit.ref) ?? (now.next || shown.hits.length > PAGE ? [hit] : [])) // the list is all there is: what is not in it is gone
  function showNew() {
    setShown({ hits: now.hits, next: now.next })
    requestAnimationFrame(() => list.current?.querySelector('a')?.focus())
  }
  async function showMore() {
    try {
      const page = await more(shown.next!)
      setShown({ hits: [...shown.hits, ...page.hits.filter((hit) => !known.has(hit.ref))], next: page.next })
    } catch (error) {
      failed(error)
    }
  }
  return (
    <>
      <p role="status" class="news">
        {added > 0 && <button onClick={showNew}>{plural(added, 'new', 'new')} – show</button>}
      </p>
      <ul class="hits" ref={list} aria-label="Found">
        {kept.map((hit) => (
          <li key={hit.ref}>
            <a class="hit" href={address(hit.ref)}>
              <b>{hit.title}</b>{' '}
              <span class="mut">
                {hit.family}
                {hit.why ? ` · found by ${hit.why}` : ''}
                {hit.more ? ` · ${hit.more}` : ''}
              </span>
              <span class="snippet">{hit.snippet}</span>
            </a>
          </li>
        ))}
      </ul>
      {shown.next && (
        <p>
          <button onClick={showMore}>Show more</button>
        </p>
      )}
    </>
  )
}

/** Anything else a search finds: a fact of the vault, an entity. */
function Opened({ reference }: { reference: string }) {
  const found = useLoaded(() => open<Record<string, unknown>>(reference), [reference])
  const title = decoded(reference.split('/').pop() ?? reference)
  useTitle(title)
  const project = decoded(/^graph:([^/]+)\//.exec(reference)?.[1] ?? '')
  return (
    <>
      <p>
        <a href="/memories">Memories</a>
      </p>
      <h1>{title}</h1>
      <p class="mut">
        <code>{reference}</code>
      </p>
      <Awaited of={found}>
        {(value) => (
          <>
            {typeof value.content === 'string' ? <Markdown text={value.content} /> : null}
            <pre tabIndex={0}>{JSON.stringify(value, null, 2)}</pre>
          </>
        )}
      </Awaited>
      {project && (
        <p>
          <a href={to(['graph'], { project })}>See it in the graph of {project}</a>
        </p>
      )}
    </>
  )
}
