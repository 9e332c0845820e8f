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

export type Order = NonNullable<NotesQuery['order']>

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
      return { ...request, incomplete: [], hits: await listNotes(query, offset, PAGE_SIZE) }
    case 'hits':
      return { ...request, ...(await recall(query)) }
    case 'writes':
      return { ...request, ...(await latestWrites(query.family, offset)) }
  }
}

async function listNotes({ q, filters, order }: ListQuery, offset: number, limit: number): Promise<Hit[]> {
  const { notes } = await get('/api/notes', { query: { q, offset, limit, order, ...notesQuery(filters) } })
  return notes.map(noteHit)
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
})

async function recall({ q, family, filters: { tag }, onlyWords }: ListQuery) {
  const { hits, incomplete } = await tool('recall_memories', {
    query: q,
    limit: onlyWords ? MAX_PER_REQUEST : PAGE_SIZE,
    ...(family ? { families: [family] } : {}),
    ...(tag ? { tags: [tag] } : {}),
  })
  return { incomplete, hits: onlyWords ? hits.filter((hit) => !isFoundByMeaning(hit)) : hits }
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
