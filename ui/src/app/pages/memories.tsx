import { useEffect, useRef, useState } from 'preact/hooks'
import { plural } from '../../shared/format'
import { showError } from '../../shared/toast'
import { get } from '../api'
import { MEMORY_CHANGES } from '../changes'
import { Markdown } from '../markdown'
import { filtersFromQuery } from '../note-filters'
import { refHref } from '../refs'
import { Await, useResource } from '../resource'
import { navigate, route, setQuery } from '../router'
import { FAMILIES, findByTitle, PAGE_SIZE, search, searchNotes, type HitPage, type SearchResult } from '../search'
import { usePageTitle } from '../title'
import { decode, href } from '../urls'
import { Filters } from './filters'
import { NewNote, NotePage } from './note'

const SEARCH_DELAY_MS = 200
const SEARCH_CHANGES = { ...MEMORY_CHANGES, topics: ['stores', 'graph'] }

export function Memories() {
  const [, part, id] = route.value.path
  const { ref = '', title, namespace } = route.value.query
  if (part === 'new') return <NewNote />
  if (part === 'note' && id) return <NotePage key={id} id={id} />
  if (part === 'open') return <OpenedRef key={ref} reference={ref} />
  if (title) return <NoteByTitle key={title} title={title} namespace={namespace} />
  return <SearchPage />
}

/** Follows a [[Title]] to its note, or to a new one. */
function NoteByTitle({ title, namespace }: { title: string; namespace: string | undefined }) {
  useEffect(() => {
    const open = async () => {
      const found = await findByTitle(title, namespace)
      const page = found
        ? href(['memories', 'note', found.id])
        : href(['memories', 'new'], { called: title, namespace })
      navigate(page, true)
    }
    open().catch(showError)
  }, [])
  return <h1>{title}</h1>
}

function SearchPage() {
  const { q = '', family = '' } = route.value.query
  const filters = filtersFromQuery(route.value.query)
  const key = JSON.stringify([q, family, filters])
  const box = useRef<HTMLInputElement>(null)
  const list = useRef<HTMLDivElement>(null)
  const [text, setText] = useState(q)
  const found = useResource(() => search(key, q, family, filters), [key], SEARCH_CHANGES)
  useEffect(() => setText(q), [q])
  useEffect(() => {
    if (text === q) return
    const timer = setTimeout(() => setQuery({ q: text }, true), SEARCH_DELAY_MS)
    return () => clearTimeout(timer)
  }, [text])
  const moveFocus = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key]
    if (!step || (event.target as Element).matches('select, [type=date]')) return
    const links = [...(list.current?.querySelectorAll<HTMLAnchorElement>('a.hit') ?? [])]
    const next = links.indexOf(document.activeElement as HTMLAnchorElement) + step
    event.preventDefault()
    if (next < 0) box.current?.focus()
    else links[next]?.focus()
  }
  const isFiltered = Boolean(q || family || Object.values(filters).some(Boolean))
  return (
    <>
      <div class="bar heading">
        <h1>Memories</h1>
        <span class="space" />
        <a class="button primary" href="/memories/new">
          New note
        </a>
      </div>
      <div onKeyDown={moveFocus}>
        <div class="bar" role="search">
          <input
            ref={box}
            data-search
            class="wide"
            type="search"
            aria-label="Search everything"
            placeholder="Search everything: words or a question"
            value={text}
            onInput={(event) => setText(event.currentTarget.value)}
          />
          <select
            aria-label="Family"
            value={family}
            onChange={(event) => setQuery({ family: event.currentTarget.value })}
          >
            <option value="">all families</option>
            {FAMILIES.map((name) => (
              <option key={name} value={name}>
                {name}
              </option>
            ))}
          </select>
        </div>
        <Filters filters={filters} />
        <Await resource={found}>
          {(result) => (
            <div ref={list}>
              {result.incomplete.map(({ family: name, error }) => (
                <p class="mut" key={name}>
                  {name}: {error}
                </p>
              ))}
              {result.hits.length ? (
                <HitList key={result.key} result={result} loadMore={(after) => searchNotes(q, filters, after)} />
              ) : isFiltered ? (
                <NothingFound
                  onClear={() => {
                    setText('')
                    navigate('/memories')
                  }}
                />
              ) : (
                <p class="empty">
                  Nothing is stored yet. <a href="/keys">Connect a client</a>, or{' '}
                  <a href="/memories/new">write a note</a>.
                </p>
              )}
            </div>
          )}
        </Await>
      </div>
    </>
  )
}

function NothingFound({ onClear }: { onClear: () => void }) {
  return (
    <p class="empty">
      Nothing found.{' '}
      <button class="link" onClick={onClear}>
        Clear the search
      </button>
    </p>
  )
}

interface HitListProps {
  result: SearchResult
  loadMore: (after: string) => Promise<HitPage>
}

/** The hits stay in place while the user reads; new ones appear when the user asks for them. */
function HitList({ result, loadMore }: HitListProps) {
  const [shown, setShown] = useState({ hits: result.hits, next: result.next })
  const list = useRef<HTMLUListElement>(null)
  const newest = new Map(result.hits.map((hit) => [hit.ref, hit]))
  const known = new Set(shown.hits.map((hit) => hit.ref))
  const added = result.hits.filter((hit) => !known.has(hit.ref)).length
  const isPartial = result.next !== null || shown.hits.length > PAGE_SIZE // else a missing hit was deleted
  const visible = shown.hits.flatMap((hit) => newest.get(hit.ref) ?? (isPartial ? [hit] : []))
  function showNew() {
    setShown({ hits: result.hits, next: result.next })
    requestAnimationFrame(() => list.current?.querySelector('a')?.focus())
  }
  async function showMore() {
    try {
      const page = await loadMore(shown.next!)
      setShown({ hits: [...shown.hits, ...page.hits.filter((hit) => !known.has(hit.ref))], next: page.next })
    } catch (error) {
      showError(error)
    }
  }
  return (
    <>
      <p role="status" class="news">
        {added > 0 && <button onClick={showNew}>{plural(added, 'new', 'new')} – show</button>}
      </p>
      <ul class="hits" ref={list} aria-label="Found">
        {visible.map((hit) => (
          <li key={hit.ref}>
            <a class="hit" href={refHref(hit.ref)}>
              <b>{hit.title}</b>{' '}
              <span class="mut">
                {hit.family}
                {hit.why ? ` · found by ${hit.why}` : ''}
                {hit.detail ? ` · ${hit.detail}` : ''}
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

/** Any other hit: a fact of the vault, an entity. */
const open = async (ref: string) => (await get('/api/open', { query: { ref } })) as Record<string, unknown>

function OpenedRef({ reference }: { reference: string }) {
  const found = useResource(() => open(reference), [reference])
  const title = decode(reference.split('/').pop() ?? reference)
  usePageTitle(title)
  const project = decode(/^graph:([^/]+)\//.exec(reference)?.[1] ?? '')
  return (
    <>
      <p>
        <a href="/memories">Memories</a>
      </p>
      <h1>{title}</h1>
      <p class="mut">
        <code>{reference}</code>
      </p>
      <Await resource={found}>
        {(value) => (
          <>
            {typeof value.content === 'string' ? <Markdown text={value.content} /> : null}
            <pre tabIndex={0}>{JSON.stringify(value, null, 2)}</pre>
          </>
        )}
      </Await>
      {project && (
        <p>
          <a href={href(['graph'], { project })}>Show it in the graph of {project}</a>
        </p>
      )}
    </>
  )
}
