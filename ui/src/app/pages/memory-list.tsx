// One list of memories: a search over every family, notes by filter, or the latest writes of a family.
import type { RefObject } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import type { Schemas } from '../../shared/api-types'
import { number, plural } from '../../shared/format'
import { get } from '../api'
import { MEMORY_CHANGES } from '../changes'
import { FAMILIES, familyCount, familyLabel } from '../families'
import { filtersFromQuery, notesQuery } from '../note-filters'
import { noteId } from '../refs'
import { Await, useResource } from '../resource'
import { navigate, route, setQuery } from '../router'
import {
  allNotes,
  isFoundByMeaning,
  isRanked,
  isOnePage,
  listKind,
  MAX_MIXED,
  ORDERS,
  PAGE_SIZE,
  search,
  SEARCH_ORDERS,
  type Hit,
  type ListQuery,
  type Order,
  type SearchResult,
} from '../search'
import { choose, ChosenFilters, Facets } from './facets'
import { HitList, isSelectable, NothingFound, Pager, useShownHits } from './hits'
import { select, selectedIn } from '../selection'
import { SelectionBar } from './selection-bar'
import { Timeline } from './timeline'

const SEARCH_DELAY_MS = 200
const MAX_SELECTED = 5000
const SEARCH_CHANGES = { ...MEMORY_CHANGES, topics: ['stores', 'graph'] }

/** The list that the address describes. */
function currentQuery(): ListQuery {
  const { q = '', family = '', order = '', words, page } = route.value.query
  const filters = filtersFromQuery(route.value.query)
  const orders = isRanked({ q, filters }) ? SEARCH_ORDERS : ORDERS
  return {
    q,
    family: FAMILIES.find((name) => name === family) ?? '',
    filters,
    order: (Object.hasOwn(orders, order) ? order : Object.keys(orders)[0]) as Order,
    onlyWords: Boolean(words),
    page: Math.max(1, Math.floor(Number(page)) || 1),
  }
}

export function MemoryList() {
  const query = currentQuery()
  const { page, ...all } = query
  const list = JSON.stringify(all)
  const key = JSON.stringify(query)
  const box = useRef<HTMLInputElement>(null)
  const content = useRef<HTMLDivElement>(null)
  const found = useResource(() => search(key, query), [key], SEARCH_CHANGES, 'memories')
  const shown = useShownHits(found.value, page)
  const counts = useCounts(query, found.value && shown.hits)
  const moveFocus = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key]
    if (!step || event.altKey || event.ctrlKey || event.metaKey) return
    if ((event.target as Element).matches('select, [type=date]')) return
    const links = [...(content.current?.querySelectorAll<HTMLAnchorElement>('a.hit') ?? [])]
    const next =
      links.indexOf(document.activeElement?.closest('li')?.querySelector('a.hit') as HTMLAnchorElement) + step
    event.preventDefault()
    if (next < 0) box.current?.focus()
    else links[next]?.focus()
  }
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (event.target === document.body || (event.target as Element).id === 'content') moveFocus(event)
    }
    addEventListener('keydown', onKey)
    return () => removeEventListener('keydown', onKey)
  }, [])
  return (
    <>
      <div class="bar heading">
        <h1>Memories</h1>
        <span class="space" />
        <a class="button primary" href="/memories/new">
          New note
        </a>
      </div>
      <div class="memories" onKeyDown={moveFocus}>
        <div class="found">
          <SearchBox q={query.q} box={box} />
          <ChosenFilters filters={query.filters} />
          {listKind(query) !== 'hits' && counts.facets && query.family in NOTE_LISTS && (
            <Timeline days={counts.facets.days} since={query.filters.since} until={query.filters.until} />
          )}
          <Await resource={found}>
            {(result) => (
              <div ref={content}>
                <Results
                  key={result.key}
                  query={query}
                  list={list}
                  result={result}
                  shown={shown}
                  total={counts.total}
                  page={page}
                />
              </div>
            )}
          </Await>
        </div>
        <Facets filters={query.filters} family={query.family} {...counts} />
      </div>
    </>
  )
}

const NOTE_LISTS = { '': true, notes: true } // families whose lists have notes

interface Counts {
  families: Record<string, number | undefined>
  facets: Schemas['FacetsShown'] | undefined
  total: number | undefined // of the list; undefined if it is not known
  hits?: number // these alone are counted: those that a search found
}

/** How many memories there are, or a search found; they may come later than the list. */
function useCounts(query: ListQuery, shown: Hit[] | undefined): Counts {
  const { q, filters, family } = query
  const overview = useResource(() => get('/api/overview'), [], SEARCH_CHANGES, 'overview').value ?? {}
  const hits = isRanked(query) ? (shown ?? []) : null
  const ids = hits?.flatMap((hit) => noteId(hit.ref) ?? [])
  const wanted = ids ? { id: ids } : { ...notesQuery(filters), ...(filters.archived ? { q } : {}) }
  const facets = useResource(
    async () => (ids?.length === 0 ? undefined : get('/api/notes/facets', { query: wanted })),
    [wanted],
    MEMORY_CHANGES,
    'facets',
  ).value
  if (hits) return { families: countFamilies(hits), facets, total: undefined, hits: shown?.length }
  const families = Object.fromEntries(FAMILIES.map((name) => [name, familyCount(overview, name)]))
  if (listKind(query) === 'notes') return { families, facets, total: facets?.total }
  const known = family ? [families[family]] : Object.values(families)
  const sum = known.includes(undefined) ? undefined : known.reduce((one, other) => one! + other!, 0)
  return { families, facets, total: sum && (family ? sum : Math.min(sum, MAX_MIXED)) }
}

function countFamilies(hits: Hit[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const { family } of hits) counts[family] = (counts[family] ?? 0) + 1
  return counts
}

function SearchBox({ q, box }: { q: string; box: RefObject<HTMLInputElement | null> }) {
  const [text, setText] = useState(q)
  useEffect(() => setText(q), [q])
  useEffect(() => {
    if (text === q) return
    const timer = setTimeout(() => setQuery({ q: text, page: '' }, true), SEARCH_DELAY_MS)
    return () => clearTimeout(timer)
  }, [text])
  return (
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
    </div>
  )
}

interface ResultsProps {
  query: ListQuery
  list: string
  result: SearchResult
  shown: ReturnType<typeof useShownHits>
  total: number | undefined
  page: number
}

function Results({ query, list, result, shown, total, page }: ResultsProps) {
  const { q, family, filters } = query
  const hasFilters = Object.values(filters).some(Boolean)
  const isFull = result.hits.length >= PAGE_SIZE
  const isNotesList = listKind(query) === 'notes' && total !== undefined
  return (
    <>
      {result.incomplete.map(({ family: name, error }) => (
        <p class="mut" key={name}>
          {familyLabel(name)}: {error}
        </p>
      ))}
      {result.hits.length > 0 && (
        <>
          <div class="bar">
            <SelectionBar
              list={list}
              hits={shown.hits.filter(isSelectable)}
              total={isNotesList ? total : undefined}
              maxSelected={MAX_SELECTED}
              loadAll={() => allNotes(query, MAX_SELECTED)}
              isArchived={Boolean(filters.archived)}
            />
            <span class="space" />
            {isRanked(query) && <OnlyWords query={query} hits={shown.hits} />}
            <ListCount shown={shown.hits.length} total={total} page={page} isSearch={Boolean(q)} />
            {isRanked(query) && <OrderChoice orders={SEARCH_ORDERS} order={query.order} />}
            {listKind(query) === 'notes' && !q && <OrderChoice orders={ORDERS} order={query.order} />}
          </div>
          {selectedIn(list).size > 0 && <RowsNotSelected hits={shown.hits} />}
          <SimilarSelected list={list} hits={shown.hits} q={q} />
          {shown.hits.length > 0 && shown.hits.every(isFoundByMeaning) && (
            <p role="status">
              <b>No memory has the words “{q}”.</b> These are similar in meaning.
            </p>
          )}
          <HitList shown={shown} query={q} list={list} />
          {listKind(query) !== 'hits' && !isOnePage(query) && <Pager page={page} total={total} isFull={isFull} />}
          {!q && !family && !hasFilters && total === MAX_MIXED && (
            <p class="mut">These are the latest {number(MAX_MIXED)}. Search, or choose a kind, for older ones.</p>
          )}
        </>
      )}
      {!result.hits.length &&
        (q || family || hasFilters ? (
          <NothingFound
            query={q}
            family={family}
            hasFilters={hasFilters}
            onlyWords={query.onlyWords}
            onClear={() => navigate('/memories')}
          />
        ) : (
          <NothingStored />
        ))}
    </>
  )
}

function NothingStored() {
  return (
    <p class="empty">
      Nothing is stored yet. <a href="/keys">Connect a client</a>, <a href="/import">import what you have</a>, or{' '}
      <a href="/memories/new">write a note</a>.
    </p>
  )
}

/** A search by meaning also finds memories without the words. Who deletes all about a person leaves them out. */
function OnlyWords({ query, hits }: { query: ListQuery; hits: Hit[] }) {
  if (!query.onlyWords && !hits.some(isFoundByMeaning)) return null
  return (
    <label>
      <input
        type="checkbox"
        checked={query.onlyWords}
        onChange={(event) => choose({ words: event.currentTarget.checked ? '1' : '' })}
      />{' '}
      Only with these words
    </label>
  )
}

function RowsNotSelected({ hits }: { hits: Hit[] }) {
  const count = hits.filter((hit) => !isSelectable(hit)).length
  if (!count) return null
  return (
    <p class="mut">
      {plural(count, 'row of a table is', 'rows of tables are')} not selected: open one to delete rows in its table.
    </p>
  )
}

/** "Select all" also takes memories that are only similar. They can be left out before the others are deleted. */
function SimilarSelected({ list, hits, q }: { list: string; hits: Hit[]; q: string }) {
  const selected = selectedIn(list)
  const similar = hits.filter((hit) => isFoundByMeaning(hit) && selected.has(hit.ref)).map((hit) => hit.ref)
  if (!similar.length || similar.length === selected.size) return null
  return (
    <p role="status">
      {plural(similar.length, 'selected memory is', 'selected memories are')} only similar in meaning, without the words
      “{q}”.{' '}
      <button class="link" onClick={() => select(list, similar, false)}>
        Leave {similar.length === 1 ? 'it' : 'them'} out
      </button>
    </p>
  )
}

interface ListCountProps {
  shown: number
  total: number | undefined
  page: number
  isSearch: boolean
}

function ListCount({ shown, total, page, isSearch }: ListCountProps) {
  const first = (page - 1) * PAGE_SIZE
  const isPart = total !== undefined && total > shown
  const text = isPart
    ? `${number(first + 1)} to ${number(first + shown)} of ${plural(total, 'memory', 'memories')}`
    : plural(total ?? shown, 'memory', 'memories') +
      (total === undefined && isSearch && shown >= PAGE_SIZE ? ' and more' : '')
  return (
    <span class="mut" aria-live="polite">
      {text}
    </span>
  )
}

function OrderChoice({ orders, order }: { orders: Partial<Record<Order, string>>; order: Order }) {
  const [usual] = Object.keys(orders)
  return (
    <label>
      Sort{' '}
      <select
        value={order}
        onChange={({ currentTarget: { value } }) => choose({ order: value === usual ? '' : value })}
      >
        {Object.entries(orders).map(([name, label]) => (
          <option key={name} value={name}>
            {label}
          </option>
        ))}
      </select>
    </label>
  )
}
