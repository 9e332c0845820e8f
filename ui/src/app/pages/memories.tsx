import { useEffect, useRef, useState } from 'preact/hooks'
import { failed } from '../../shared/toast'
import { ago } from '../../shared/words'
import { open, tool } from '../api'
import { Awaited, useLoaded } from '../loading'
import { Markdown } from '../markdown'
import { go, to, turn, where } from '../router'
import type { Slim } from './home'
import { NewNote, NotePage } from './note'

const FAMILIES = ['notes', 'vault', 'stores', 'graph', 'portals']

interface Hit {
  family: string
  ref: string
  title: string
  snippet: string
  why?: string
  more?: string
}

interface Found {
  hits: Hit[]
  incomplete: { family: string; error: string }[]
}

export const noteRef = (id: string) => `memory://note/${id}`

/** Where in the app something is shown that a search found. */
export function address(ref: string): string {
  const note = /^memory:\/\/note\/(.+)$/.exec(ref)
  if (note) return to(['memories', 'note', note[1]!])
  const file = /^stores:([^/]+)\/(.+)$/.exec(ref)
  if (file) return to(['stores', file[1]!, ...decodeURIComponent(file[2]!).split('/')], { file: '1' })
  const portal = /^mem:\/\/([^/]+)\/([^/?]+)\/?([^?]*)/.exec(ref)
  if (portal) return to(['portals', portal[1]!, portal[2]!], { table: portal[3] })
  return to(['memories', 'open'], { ref })
}

async function search(q: string, family: string, tag: string, source: string): Promise<Found> {
  if (q) {
    const asked = { query: q, limit: 50, ...(family ? { families: [family] } : {}), ...(tag ? { tags: [tag] } : {}) }
    return tool<Found>('recall_memories', asked)
  }
  if (family === 'vault') return { hits: await vault(), incomplete: [] }
  const chosen = { ...(tag ? { tags: [tag] } : {}), ...(source ? { source } : {}) }
  const { memories } = tag || source ? await tool<{ memories: Slim[] }>('memory_search', { query: '', limit: 50, ...chosen }) : await tool<{ memories: Slim[] }>('memory_recent', { limit: 50 })
  return { hits: memories.map((note) => ({ family: 'notes', ref: noteRef(note.id), title: note.title, snippet: note.snippet, more: note.updated_at ? `${note.namespace} · ${ago(note.updated_at)}` : '' })), incomplete: [] }
}

async function vault(): Promise<Hit[]> {
  const listed = await open<unknown>('memory://vault')
  const entries = (Array.isArray(listed) ? listed : ((listed as { memories?: unknown[] }).memories ?? [])) as { key: string; content?: string }[]
  return entries.map((one) => ({ family: 'vault', ref: `memory://vault/${encodeURIComponent(one.key)}`, title: one.key, snippet: (one.content ?? '').slice(0, 300) }))
}

export function Memories() {
  const [, part, id] = where.value.path
  if (part === 'new') return <NewNote />
  if (part === 'note' && id) return <NotePage key={id} id={id} />
  if (part === 'open') return <Opened key={where.value.query.ref} reference={where.value.query.ref ?? ''} />
  if (where.value.query.title) return <ByTitle key={where.value.query.title} title={where.value.query.title} />
  return <Searching />
}

/** A [[Title]]: the note that has it, or a new one. */
function ByTitle({ title }: { title: string }) {
  useEffect(() => {
    tool<{ memories: Slim[] }>('memory_search', { query: title, search_mode: 'lexical', limit: 20 }).then(({ memories }) => {
      const found = memories.find((note) => note.title.toLowerCase() === title.toLowerCase())
      go(found ? to(['memories', 'note', found.id]) : to(['memories', 'new'], { called: title }), true)
    }, failed)
  }, [])
  return <h1>{title}</h1>
}

function Searching() {
  const { q = '', family = '', tag = '', source = '' } = where.value.query
  const box = useRef<HTMLInputElement>(null)
  const list = useRef<HTMLUListElement>(null)
  const [typed, setTyped] = useState(q)
  const found = useLoaded(() => search(q, family, tag, source), [q, family, tag, source])
  useEffect(() => setTyped(q), [q])
  useEffect(() => {
    if (typed === q) return
    const timer = setTimeout(() => turn({ q: typed }, true), 200)
    return () => clearTimeout(timer)
  }, [typed])
  const move = (event: KeyboardEvent) => {
    if (event.key !== 'ArrowDown' && event.key !== 'ArrowUp') return
    const links = [...(list.current?.querySelectorAll<HTMLAnchorElement>('a.hit') ?? [])]
    const at = links.indexOf(document.activeElement as HTMLAnchorElement)
    const next = event.key === 'ArrowDown' ? at + 1 : at - 1
    event.preventDefault()
    if (next < 0) box.current?.focus()
    else links[next]?.focus()
  }
  return (
    <>
      <div class="bar heading">
        <h1>Memories</h1>
        <span class="space" />
        <a class="button primary" href="/memories/new">New note</a>
      </div>
      <div onKeyDown={move}>
        <div class="bar" role="search">
          <input ref={box} data-search class="wide" type="search" aria-label="Search everything" placeholder="Search everything: words or a question" value={typed} onInput={(event) => setTyped(event.currentTarget.value)} />
          <select aria-label="Family" value={family} onChange={(event) => turn({ family: event.currentTarget.value })}>
            <option value="">all families</option>
            {FAMILIES.map((name) => <option key={name} value={name}>{name}</option>)}
          </select>
          {tag && <span class="tag">#{tag} <button class="link" aria-label={`Without the tag ${tag}`} onClick={() => turn({ tag: '' })}>×</button></span>}
          {source && <span class="tag">{source === 'ui' ? 'written here' : source} <button class="link" aria-label="From anywhere" onClick={() => turn({ source: '' })}>×</button></span>}
        </div>
        <Awaited of={found}>
          {({ hits, incomplete }) => (
            <>
              {incomplete.map((one) => <p class="mut" key={one.family}>{one.family}: {one.error}</p>)}
              {hits.length ? (
                <ul class="hits" ref={list} aria-label="Found">
                  {hits.map((hit) => (
                    <li key={hit.ref}>
                      <a class="hit" href={address(hit.ref)}>
                        <b>{hit.title}</b> <span class="mut">{hit.family}{hit.why ? ` · found by ${hit.why}` : ''}{hit.more ? ` · ${hit.more}` : ''}</span>
                        <span class="snippet">{hit.snippet}</span>
                      </a>
                    </li>
                  ))}
                </ul>
              ) : q || family || tag || source ? (
                <p class="empty">Nothing found. <button class="link" onClick={() => { setTyped(''); go('/memories') }}>Clear the search</button></p>
              ) : (
                <p class="empty">Nothing is kept yet. <a href="/keys">Connect a client</a>, or <a href="/memories/new">write a note</a>.</p>
              )}
            </>
          )}
        </Awaited>
      </div>
    </>
  )
}

/** Anything else a search finds: a fact of the vault, an entity. */
function Opened({ reference }: { reference: string }) {
  const found = useLoaded(() => open<Record<string, unknown>>(reference), [reference])
  const title = decodeURIComponent(reference.split('/').pop() ?? reference)
  const project = /^graph:([^/]+)\//.exec(reference)?.[1]
  return (
    <>
      <p><a href="/memories">Memories</a></p>
      <h1>{title}</h1>
      <p class="mut"><code>{reference}</code></p>
      <Awaited of={found}>
        {(value) => (
          <>
            {typeof value.content === 'string' ? <Markdown text={value.content} /> : null}
            <pre tabIndex={0}>{JSON.stringify(value, null, 2)}</pre>
          </>
        )}
      </Awaited>
      {project && <p><a href={to(['graph'], { project })}>See it in the graph of {project}</a></p>}
    </>
  )
}
