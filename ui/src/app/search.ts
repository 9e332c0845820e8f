// The list of memories: a search over every family, notes by filter, or the latest writes of a family.
import type { Schemas, ToolResult } from '../shared/api-types'
import { get, tool } from './api'
import { countEndedActions } from './changes'
import type { Family } from './families'
import { notesQuery, type NoteFilters, type NotesQuery } from './note-filters'
import { noteRef } from './refs'

export const PAGE_SIZE = 50
export const MAX_MIXED = 1000 // latest writes of all families together
const MAX_PER_REQUEST = 100

export type Order = NonNullable<NotesQuery['order']> | 'best'

/** How a list may be ordered, first what it is unless the user chooses. */
export const ORDERS: Partial<Record<Order, string>> = {
  updated: 'last changed',
  created: 'newest',
  oldest: 'oldest',
  title: 'by title',
  importance: 'most important',
}
export const SEARCH_ORDERS: Partial<Record<Order, string>> = {
  best: 'best match',
  updated: 'last changed',
  title: 'by title',
}

export interface Hit {
  family: string
  ref: string
  title: string
  snippet: string
  why?: string
  namespace?: string | null
  source?: string | null
  client?: string | null
  updated_at?: string | null
}

export interface ListQuery {
  q: string
  family: Family | ''
  filters: NoteFilters
  order: Order
  onlyWords: boolean // without hits that were found by their meaning alone
  page: number // from 1
}

export interface SearchResult {
  key: string // of the search
  endedActions: number // of this user, when it was asked for
  hits: Hit[]
  incomplete: ToolResult<'recall_memories'>['incomplete']
}

/** Whether the memories that fit a search best are listed, not all of a kind. */
export const isRanked = ({ q, filters }: Pick<ListQuery, 'q' | 'filters'>) => Boolean(q && !filters.archived)

/** What is listed: notes by filter, the hits of a search over families, or the latest writes. */
export function listKind({ q, family, filters }: Omit<ListQuery, 'page'>): 'notes' | 'hits' | 'writes' {
  const { tag, ...others } = filters
  if (family === 'notes' || Object.values(others).some(Boolean) || (tag && !q)) return 'notes'
  return q ? 'hits' : 'writes'
}

export async function search(key: string, query: ListQuery): Promise<SearchResult> {
  const offset = (query.page - 1) * PAGE_SIZE
  const request = { key, endedActions: countEndedActions() }
  switch (listKind(query)) {
    case 'notes':
      return { ...request, incomplete: [], hits: await notesPart(query, offset) }
    case 'hits':
      return { ...request, ...(await recall(query)) }
    case 'writes':
      return { ...request, ...(await latestWrites(query.family, offset)) }
  }
}

/** A page of notes. Those that fit a search best are sorted, and chosen by their words, all together. */
async function notesPart(query: ListQuery, offset: number): Promise<Hit[]> {
  if (!isOnePage(query)) return listNotes(query, offset, PAGE_SIZE)
  const hits = await listNotes(query, 0, MAX_PER_REQUEST)
  return sorted(query.onlyWords ? hits.filter((hit) => !isFoundByMeaning(hit)) : hits, query.order)
}

export const isOnePage = (query: ListQuery) => isRanked(query) && (query.order !== 'best' || query.onlyWords)

async function listNotes({ q, filters, order }: ListQuery, offset: number, limit: number): Promise<Hit[]> {
  const query = { q, offset, limit, ...notesQuery(filters), ...(order === 'best' ? {} : { order }) }
  const { notes } = await get('/api/notes', { query })
  return notes.map(noteHit)
}

function sorted(hits: Hit[], order: Order): Hit[] {
  if (order === 'title') return [...hits].sort((one, other) => one.title.localeCompare(other.title))
  if (order === 'updated')
    return [...hits].sort((one, other) => (other.updated_at ?? '').localeCompare(one.updated_at ?? ''))
  return hits
}

/** All notes of a list, up to a limit. */
export async function allNotes(query: ListQuery, limit: number): Promise<Hit[]> {
  const found: Hit[] = []
  while (found.length < limit) {
    const some = await listNotes(query, found.length, MAX_PER_REQUEST)
    found.push(...some)
    if (some.length < MAX_PER_REQUEST) break
  }
  return found.slice(0, limit)
}

const noteHit = (note: Schemas['NoteListed']): Hit => ({
  family: 'notes',
  ref: noteRef(note.id),
  title: note.title,
  snippet: note.snippet,
  namespace: note.namespace,
  source: note.source,
  updated_at: note.updated_at,
  why: note.why ?? undefined,
})

async function recall({ q, family, filters: { tag }, order, onlyWords }: ListQuery) {
  const { hits, incomplete } = await tool('recall_memories', {
    query: q,
    limit: onlyWords ? MAX_PER_REQUEST : PAGE_SIZE,
    ...(family ? { families: [family] } : {}),
    ...(tag ? { tags: [tag] } : {}),
  })
  const chosen = onlyWords ? hits.filter((hit) => !isFoundByMeaning(hit)) : hits
  return { incomplete, hits: sorted(chosen, order) }
}

/** Alone: none of the words of the search is in it. */
export const isFoundByMeaning = (hit: Pick<Hit, 'why'>) => hit.why === 'its meaning'

async function latestWrites(family: Family | '', offset: number) {
  const query = { limit: PAGE_SIZE, offset, text: true, ...(family ? { family } : {}) }
  const { writes, incomplete } = await get('/api/recent', { query })
  const hits = writes.map(({ text, at, ...write }): Hit => ({ ...write, snippet: text, updated_at: at }))
  return { incomplete, hits }
}

/** The note with a title, preferably in the namespace of the note that links to it. */
export async function findByTitle(title: string, namespace?: string): Promise<Schemas['NoteListed'] | undefined> {
  const find = async (scope: { namespace?: string }) =>
    (await get('/api/notes', { query: { title, limit: 1, ...scope } })).notes[0]
  return (namespace && (await find({ namespace }))) || find({})
}
