// One search over every family, with the filters of notes.
import type { Schemas, ToolArguments, ToolResult } from '../shared/api-types'
import { get, tool } from './api'
import { notesQuery, type NoteFilters } from './note-filters'
import { noteRef } from './refs'

export type Family = NonNullable<ToolArguments<'recall_memories'>['families']>[number]
export const FAMILIES: Family[] = ['notes', 'vault', 'stores', 'graph', 'portals']
export const PAGE_SIZE = 50
const MAX_RECENT = 100

export interface Hit {
  family: string
  ref: string
  title: string
  snippet: string
  why?: string
  namespace?: string | null
  source?: string | null
  updated_at?: string | null
}

export interface HitPage {
  hits: Hit[]
  next: string | null
}

export interface SearchResult extends HitPage {
  key: string // of the search
  incomplete: ToolResult<'recall_memories'>['incomplete']
}

export async function search(key: string, q: string, family: string, filters: NoteFilters): Promise<SearchResult> {
  const { tag, ...others } = filters
  const isOnlyNotes = Object.values(others).some(Boolean) || family === 'notes' || (!q && !family)
  if (isOnlyNotes) return { key, incomplete: [], ...(await searchNotes(q, filters)) }
  return {
    key,
    next: null,
    ...(q ? await recall(q, family as Family | '', tag) : await recentWrites(family as Family)),
  }
}

export async function searchNotes(q: string, filters: NoteFilters, after = ''): Promise<HitPage> {
  const { notes, next } = await get('/api/notes', { query: { q, after, limit: PAGE_SIZE, ...notesQuery(filters) } })
  return { hits: notes.map(noteHit), next }
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

const recall = (query: string, family: Family | '', tag: string) =>
  tool('recall_memories', {
    query,
    limit: PAGE_SIZE,
    ...(family ? { families: [family] } : {}),
    ...(tag ? { tags: [tag] } : {}),
  })

async function recentWrites(family: Family) {
  const { writes, incomplete } = await get('/api/recent', { query: { limit: MAX_RECENT, family } })
  return { incomplete, hits: writes.map((write): Hit => ({ ...write, snippet: '', updated_at: write.at })) }
}

/** The note with a title, preferably in the namespace of the note that links to it. */
export async function findByTitle(title: string, namespace?: string): Promise<Schemas['NoteListed'] | undefined> {
  const find = async (scope: { namespace?: string }) =>
    (await get('/api/notes', { query: { title, limit: 1, ...scope } })).notes[0]
  return (namespace && (await find({ namespace }))) || find({})
}
