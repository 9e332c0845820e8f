// The families of memories, in the words of people.
import type { ToolArguments } from '../shared/api-types'

export type Family = NonNullable<ToolArguments<'recall_memories'>['families']>[number]

interface Words {
  one: string
  many: string
  count: string // the name of the count in /api/overview
}

const WORDS: Record<Family, Words> = {
  notes: { one: 'note', many: 'Notes', count: 'notes' },
  vault: { one: 'fact', many: 'Facts', count: 'memories' },
  stores: { one: 'file', many: 'Files', count: 'memories' },
  graph: { one: 'entity', many: 'Entities', count: 'entities' },
  portals: { one: 'table', many: 'Tables', count: 'portals' },
}

export const FAMILIES = Object.keys(WORDS) as Family[]

const wordsOf = (family: string) => (Object.hasOwn(WORDS, family) ? WORDS[family as Family] : undefined)

/** One memory of a family: a note, a fact, … */
export const kindLabel = (family: string) => wordsOf(family)?.one ?? family
export const familyLabel = (family: string) => wordsOf(family)?.many ?? family

/** How many memories a family has; undefined if it cannot be read. */
export function familyCount(overview: Record<string, Record<string, number | string>>, family: Family) {
  const count = overview[family]?.[WORDS[family].count]
  return typeof count === 'number' ? count : undefined
}
