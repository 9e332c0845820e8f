import { useEffect, useRef, useState } from 'preact/hooks'
import { showError } from '../../shared/toast'
import { get } from '../api'
import { MEMORY_CHANGES } from '../changes'
import { filtersFromQuery } from '../note-filters'
import { Await, useResource } from '../resource'
import { navigate, route, setQuery } from '../router'
import { FAMILIES, findByTitle, search, searchNotes } from '../search'
import { usePageTitle } from '../title'
import { decode, href } from '../urls'
import { EntityPage } from './entity'
import { FactPage } from './fact'
import { Filters } from './filters'
import { HitList, NothingFound } from './hits'
import { Source } from './memory'
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
                <HitList
                  key={result.key}
                  result={result}
                  query={q}
                  loadMore={(after) => searchNotes(q, filters, after)}
                />
              ) : isFiltered ? (
                <NothingFound
                  query={q}
                  family={family}
                  hasFilters={Object.values(filters).some(Boolean)}
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

/** A fact of the vault, an entity, or a list such as a project. */
function OpenedRef({ reference }: { reference: string }) {
  const title = decode(reference.split('/').pop() ?? reference)
  const [, project, entity] = /^graph:([^/]+)\/(.+)$/.exec(reference) ?? []
  const page = entity ? (
    <EntityPage reference={reference} project={decode(project!)} title={title} />
  ) : reference.startsWith('memory://vault/') ? (
    <FactPage reference={reference} title={title} />
  ) : (
    <OtherRef reference={reference} title={title} />
  )
  return (
    <>
      <p>
        <a href="/memories">Memories</a>
      </p>
      {page}
    </>
  )
}

function OtherRef({ reference, title }: { reference: string; title: string }) {
  const found = useResource(() => get('/api/open', { query: { ref: reference } }), [reference])
  usePageTitle(title)
  return (
    <>
      <h1>{title}</h1>
      <Await resource={found}>{(value) => <Source reference={reference} value={value} />}</Await>
    </>
  )
}
