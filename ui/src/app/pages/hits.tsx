// The memories of a list, to read and to select, and what to do where there are none.
import { useRef, useState } from 'preact/hooks'
import { ago, plural, shortTime } from '../../shared/format'
import { kindLabel } from '../families'
import { Marked } from '../marks'
import { SOURCES } from '../note-filters'
import { snippetText } from '../plain-text'
import { isConversation, refHref, shownTitle } from '../refs'
import { route, setQuery } from '../router'
import { isFoundByMeaning, PAGE_SIZE, type Hit, type SearchResult } from '../search'
import { isDeletedSince, select, selectedIn } from '../selection'
import { href } from '../urls'

interface ShownHits {
  hits: Hit[]
  added: number // further ones, which appear when the user asks for them
  showNew: () => void
}

interface HitListProps {
  shown: ShownHits
  query: string
  list: string // the key of all pages together
}

/** Portals are no single memories. */
export const isSelectable = (hit: Hit) => hit.family !== 'portals'

/** The hits stay in place while the user reads; new ones appear when the user asks for them. What the user did to the
 *  list itself is shown at once. */
export function useShownHits(result: SearchResult | undefined, page: number): ShownHits {
  const [chosen, setChosen] = useState(result)
  const isRead = chosen?.key === result?.key && chosen?.endedActions === result?.endedActions && chosen?.hits.length
  const isOutdated = result && !isRead
  if (isOutdated && chosen !== result) setChosen(result)
  if (!result || !chosen) return { hits: result?.hits ?? [], added: 0, showNew: () => undefined }
  const kept = isOutdated ? result.hits : chosen.hits
  const newest = new Map(result.hits.map((hit) => [hit.ref, hit]))
  const known = new Set(kept.map((hit) => hit.ref))
  const isPartial = result.hits.length >= PAGE_SIZE || page > 1 // else a missing hit was deleted
  return {
    hits: kept
      .flatMap((hit) => newest.get(hit.ref) ?? (isPartial ? [hit] : []))
      .filter((hit) => !isDeletedSince(hit.ref, result.endedActions)),
    added: page === 1 ? result.hits.filter((hit) => !known.has(hit.ref)).length : 0,
    showNew: () => setChosen(result),
  }
}

export function HitList({ shown, query, list }: HitListProps) {
  const { hits: visible, added } = shown
  const element = useRef<HTMLUListElement>(null)
  const lastToggled = useRef(-1)
  const selected = selectedIn(list)
  function showNew() {
    shown.showNew()
    requestAnimationFrame(() => element.current?.querySelector('a')?.focus())
  }
  /** With Shift, all from the last one. */
  function toggle(position: number, isRange: boolean) {
    const start = isRange && lastToggled.current >= 0 ? lastToggled.current : position
    const hits = visible.slice(Math.min(start, position), Math.max(start, position) + 1).filter(isSelectable)
    const refs = hits.map((hit) => hit.ref)
    select(list, refs, !selected.has(visible[position]!.ref))
    lastToggled.current = position
  }
  return (
    <>
      <p role="status" class="news">
        {added > 0 && <button onClick={showNew}>{plural(added, 'new', 'new')} – show</button>}
      </p>
      <ul class="hits" ref={element} aria-label="Found">
        {visible.map((hit, position) => (
          <HitItem
            key={hit.ref}
            hit={hit}
            query={query}
            isSelected={selected.has(hit.ref)}
            onToggle={(isRange) => toggle(position, isRange)}
          />
        ))}
      </ul>
    </>
  )
}

const sourceLabel = (source: string) => (Object.hasOwn(SOURCES, source) ? SOURCES[source as keyof typeof SOURCES] : '')

interface HitProps {
  hit: Hit
  query: string
  isSelected: boolean
  onToggle: (isRange: boolean) => void
}

/** x selects the one that has the focus. */
function HitItem({ hit, query, isSelected, onToggle }: HitProps) {
  const details = [
    isConversation(hit.ref) ? 'conversation' : kindLabel(hit.family),
    hit.namespace,
    sourceLabel(hit.source ?? ''),
    isFoundByMeaning(hit) && 'similar in meaning',
  ]
  const onKey = (event: KeyboardEvent) => {
    if (event.key.toLowerCase() !== 'x' || event.ctrlKey || event.metaKey || event.altKey || !isSelectable(hit)) return
    event.preventDefault()
    onToggle(event.shiftKey)
  }
  return (
    <li class={isSelected ? 'selected' : ''} onKeyDown={onKey}>
      {isSelectable(hit) ? (
        <label class="check">
          <input
            type="checkbox"
            aria-label={`Select ${hit.title}`}
            checked={isSelected}
            onClick={(event) => onToggle(event.shiftKey)}
          />
        </label>
      ) : (
        <span class="check" />
      )}
      <a class="hit" href={refHref(hit.ref, query)}>
        <b>
          <Marked text={shownTitle(hit)} query={query} />
        </b>{' '}
        <span class="mut">
          {details.filter(Boolean).join(' · ')}
          {hit.updated_at && (
            <>
              {' · '}
              <time dateTime={hit.updated_at} title={shortTime(hit.updated_at)}>
                {ago(hit.updated_at)}
              </time>
            </>
          )}
        </span>
        <span class="snippet">
          <Marked text={snippetText(hit.snippet)} query={query} />
        </span>
      </a>
    </li>
  )
}

/** Links to the other pages of the list; `total` is undefined while it is not known. */
export function Pager({ page, total, isFull }: { page: number; total: number | undefined; isFull: boolean }) {
  const last = total === undefined ? page + (isFull ? 1 : 0) : Math.max(1, Math.ceil(total / PAGE_SIZE))
  if (last <= 1 && page <= 1) return null
  const to = (target: number) =>
    href(route.value.path, { ...route.value.query, page: target > 1 ? String(target) : undefined })
  return (
    <nav class="bar pager" aria-label="Parts of the list">
      {page > 1 && (
        <a class="button" rel="prev" href={to(page - 1)}>
          Previous
        </a>
      )}
      <span class="mut">
        Page {page}
        {total === undefined ? '' : ` of ${last}`}
      </span>
      {page < last && (
        <a class="button" rel="next" href={to(page + 1)}>
          Next
        </a>
      )}
      {last > 2 && page < last && total !== undefined && <a href={to(last)}>Last</a>}
    </nav>
  )
}

interface NothingFoundProps {
  query: string
  family: string
  hasFilters: boolean
  onlyWords: boolean
  onClear: () => void
}

/** What was searched, and what to do now. */
export function NothingFound({ query, family, hasFilters, onlyWords, onClear }: NothingFoundProps) {
  return (
    <div class="empty" role="status">
      <p>
        <b>Nothing found{query && <> for “{query}”</>}.</b>
      </p>
      <p>
        {query && 'Try fewer or other words. '}
        {(family || hasFilters) && 'Only a part of your memories was searched. '}
        {onlyWords && 'Memories that are only similar in meaning are not shown. '}
      </p>
      <p>
        {query && family && (
          <button class="link" onClick={() => setQuery({ family: '' })}>
            Search all families
          </button>
        )}{' '}
        {onlyWords && (
          <button class="link" onClick={() => setQuery({ words: '' })}>
            Show similar ones
          </button>
        )}{' '}
        <button class="link" onClick={onClear}>
          {query ? 'Clear the search' : 'Clear the filters'}
        </button>
        {query && (
          <>
            {' '}
            <a href="/memories/new">Write a note</a>
          </>
        )}
      </p>
    </div>
  )
}
