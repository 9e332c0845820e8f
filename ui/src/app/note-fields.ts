// The fields of a note as its editor shows them, and what saving sends.
import type { Note, ToolArguments } from '../shared/api-types'

export interface NoteFields {
  title: string
  content: string
  tags: string
  importance: number
  namespace: string
}

export type TaggedText = Pick<Note, 'content' | 'tags' | 'client'>

const SYSTEM_TAGS = ['mcp', 'memory', 'archived']
const INLINE_TAG = /(?<![^\s([{"'_*~>,;:–—-])#([^\s#.,;:!?()[\]{}<>"'`*|\\@=&%$^~+]+)/g // as the server parses them
const CODE = /^(```|~~~)[^]*?(^\1|(?![^]))|`[^`\n]*`/gm
const FIELD_NAMES = { title: 'title', content: 'text', importance: 'importance', namespace: 'namespace' } as const
type ComparedField = keyof typeof FIELD_NAMES // tags of two editors are merged

const fold = (tag: string) => tag.toLowerCase()
const without = (tags: string[], others: string[]) =>
  tags.filter((tag) => !others.some((other) => fold(other) === fold(tag)))

/** `ops, first idea` and `#ops #idea` are two tags each. */
export const splitTags = (text: string) =>
  text
    .split(/[,\n]|\s(?=#)/)
    .map((tag) => tag.trim().replace(/^#/, ''))
    .filter(Boolean)

/** Whether the server adds the tag. */
export const isSystemTag = (tag: string, { client }: Pick<Note, 'client'>) =>
  SYSTEM_TAGS.includes(tag) || tag === client || tag.startsWith('ns/')

/** The tags that the editor's field can change: neither those in the text nor those that the server adds. */
export function ownTags(note: TaggedText): string[] {
  const text = note.content.replace(CODE, ' ')
  const inText = Array.from(text.matchAll(INLINE_TAG), ([, tag]) => tag!.replace(/^[/_-]+|[/_-]+$/g, ''))
  return without(
    note.tags.filter((tag) => !isSystemTag(tag, note)),
    inText,
  )
}

export const fieldsOf = (note: Note): NoteFields => ({
  title: note.title,
  content: note.content,
  tags: ownTags(note).join(', '),
  importance: note.importance,
  namespace: note.namespace,
})

/** The arguments of memory_create. */
export const newNote = (fields: NoteFields): ToolArguments<'memory_create'> => ({
  content: fields.content,
  importance: fields.importance,
  tags: splitTags(fields.tags),
  ...(fields.title ? { title: fields.title } : {}),
  ...(fields.namespace ? { namespace: fields.namespace } : {}),
})

/** Only what the user changed, for memory_update: the other fields may be newer than those on the page. */
export function changedFields(base: NoteFields, mine: NoteFields): Omit<ToolArguments<'memory_update'>, 'id'> {
  const [before, after] = [splitTags(base.tags), splitTags(mine.tags)]
  const [added, removed] = [without(after, before), without(before, after)]
  return {
    ...(mine.content !== base.content ? { content: mine.content } : {}),
    ...(mine.title && mine.title !== base.title ? { title: mine.title } : {}),
    ...(mine.namespace !== base.namespace ? { namespace: mine.namespace } : {}),
    ...(mine.importance !== base.importance ? { importance: mine.importance } : {}),
    ...(added.length ? { add_tags: added } : {}),
    ...(removed.length ? { remove_tags: removed } : {}),
  }
}

/** The names of the fields that both sides changed, and differently. */
export const conflictingFields = (base: NoteFields, mine: NoteFields, theirs: NoteFields): string[] =>
  (Object.keys(FIELD_NAMES) as ComparedField[])
    .filter((name) => mine[name] !== base[name] && theirs[name] !== base[name] && theirs[name] !== mine[name])
    .map((name) => FIELD_NAMES[name])

/** All fields as one text, for a difference that also shows changed tags or importance. */
export const noteText = ({ title, content, tags, importance, namespace }: NoteFields) =>
  `${title}\n\n${content}\n\ntags: ${tags}\nimportance: ${importance}\nnamespace: ${namespace}`
