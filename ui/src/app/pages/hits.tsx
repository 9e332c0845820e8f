// The hits of a search, and what to do where there are none.
import { useRef, useState } from 'preact/hooks'
import { ago, plural, shortTime } from '../../shared/format'
import { showError } from '../../shared/toast'
import { Marked } from '../marks'
import { SOURCES } from '../note-filters'
import { refHref } from '../refs'
import { setQuery } from '../router'
import { PAGE_SIZE, type Hit, type HitPage, type SearchResult } from '../search'

interface HitListProps {
  result: SearchResult
  query: string
  loadMore: (after: string) => Promise<HitPage>
}

/** The hits stay in place while the user reads; new ones appear when the user asks for them. */
export function HitList({ result, query, loadMore }: HitListProps) {
  const [shown, setShown] = useState({ hits: result.hits, next: result.next })
  const list = useRef<HTMLUListElement>(null)
  const newest = new Map(result.hits.map((hit) => [hit.ref, hit]))
  const known = new Set(shown.hits.map((hit) => hit.ref))
  const added = result.hits.filter((hit) => !known.has(hit.ref)).length
  const isPartial = result.next !== null || shown.hits.length > PAGE_SIZE // else a missing hit was deleted
  const visible = shown.hits.flatMap((hit) => newest.get(hit.ref) ?? (isPartial ? [hit] : []))
  const hasMore = shown.next !== null || (Boolean(query) && visible.length >= PAGE_SIZE)
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
      <p class="mut" aria-live="polite">
        {plural(visible.length, 'memory', 'memories')}
        {hasMore ? ' and more' : ''}
      </p>
      <ul class="hits" ref={list} aria-label="Found">
        {visible.map((hit) => (
          <HitItem key={hit.ref} hit={hit} query={query} />
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

const sourceLabel = (source: string) => (Object.hasOwn(SOURCES, source) ? SOURCES[source as keyof typeof SOURCES] : '')

function HitItem({ hit, query }: { hit: Hit; query: string }) {
  const details = [hit.family, hit.namespace, sourceLabel(hit.source ?? ''), hit.why ? `found by ${hit.why}` : '']
  return (
    <li>
      <a class="hit" href={refHref(hit.ref)}>
        <b>
          <Marked text={hit.title} query={query} />
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
          <Marked text={hit.snippet} query={query} />
        </span>
      </a>
    </li>
  )
}

interface NothingFoundProps {
  query: string
  family: string
  hasFilters: boolean
  onClear: () => void
}

/** What was searched, and what to do now. */
export function NothingFound({ query, family, hasFilters, onClear }: NothingFoundProps) {
  return (
    <div class="empty" role="status">
      <p>
        <b>Nothing found{query && <> for “{query}”</>}.</b>
      </p>
      <p>
        {query && 'Try fewer or other words. '}
        {(family || hasFilters) && 'Only a part of your memories was searched. '}
      </p>
      <p>
        {query && family && (
          <button class="link" onClick={() => setQuery({ family: '' })}>
            Search all families
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
