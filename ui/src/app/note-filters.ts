// The filters of the list of notes, as the address holds them and as /api/notes takes them.
import type { paths } from '../generated/api'

export type NotesQuery = NonNullable<paths['/api/notes']['get']['parameters']['query']>
export type NoteState = NonNullable<NotesQuery['state']>
type Source = NonNullable<NotesQuery['source']>

export const FILTER_NAMES = [
  'tag',
  'namespace',
  'folder',
  'client',
  'source',
  'min_importance',
  'since',
  'until',
  'state',
  'archived',
] as const
export type FilterName = (typeof FILTER_NAMES)[number]
export type NoteFilters = Record<FilterName, string>

export const SOURCES: Record<Source, string> = {
  ui: 'written here',
  mcp: 'by agents',
  import: 'imported',
  sync: 'synced',
  hook: 'from conversations',
}

export const STATES: Record<NoteState, string> = {
  superseded: 'replaced by a newer note',
  expired: 'expired',
  unembedded: 'found by words only',
}

export const filtersFromQuery = (query: Record<string, string | undefined>) =>
  Object.fromEntries(FILTER_NAMES.map((name) => [name, query[name] ?? ''])) as NoteFilters

/** Empty filters are left out. The server refuses values that it does not know. */
export const notesQuery = ({ tag, min_importance, archived, source, state, ...texts }: NoteFilters): NotesQuery => ({
  ...texts,
  ...(tag ? { tag: [tag] } : {}),
  ...(source ? { source: source as Source } : {}),
  ...(state ? { state: state as NoteState } : {}),
  ...(min_importance ? { min_importance: Number(min_importance) } : {}),
  ...(archived ? { archived: true } : {}),
})

export function describeFilter(name: FilterName, value: string): string {
  switch (name) {
    case 'tag':
      return '#' + value
    case 'source':
      return Object.hasOwn(SOURCES, value) ? SOURCES[value as Source] : value
    case 'state':
      return Object.hasOwn(STATES, value) ? STATES[value as NoteState] : value
    case 'min_importance':
      return `importance ${value} or more`
    case 'since':
      return `from ${value} on`
    case 'until':
      return `until ${value}`
    case 'client':
      return `written by ${value}`
    case 'archived':
      return 'archived'
    default:
      return `${name} ${value}`
  }
}
