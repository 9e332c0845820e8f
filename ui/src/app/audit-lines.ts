// Lines of the audit log in words.
import type { Schemas } from '../shared/api-types'
import { plural } from '../shared/format'
import { noteId } from './refs'
import { decode } from './urls'

type Entry = Schemas['AuditEntry']

const text = (value: unknown): string => (typeof value === 'string' || typeof value === 'number' ? String(value) : '')
const quoted = (value: unknown) => (text(value) ? `“${text(value)}”` : '')
const from = (store: unknown) => (text(store) ? ` from the store ${quoted(store)}` : '')

/** What a `ref` names, in words. */
function describeRef(ref: string): string {
  const [, kind, path = ''] =
    /^(memory:\/\/note\/|memory:\/\/vault\/|stores:[^/]+\/|graph:[^/]+\/)(.+)$/.exec(ref) ?? []
  const name = quoted(decode(path))
  if (!kind) return ref || 'A memory'
  if (kind.startsWith('stores:')) return `The file ${name}`
  if (kind.startsWith('graph:')) return `The entity ${name}`
  return kind.endsWith('vault/') ? `The fact ${name}` : 'A note'
}

const SENTENCES: Record<string, (details: Record<string, unknown>) => string> = {
  key_created: ({ name }) => `The key ${quoted(name)} was created`,
  key_revoked: () => 'A key was revoked',
  key_used: ({ name }) => `The key ${quoted(name)} was used`,
  signed_in: ({ by }) => `You signed in with a ${by === 'password' ? 'password' : 'link'}`,
  password_set: ({ name }) =>
    name ? `You set a new password for ${text(name)}` : 'A new password was set, and you were signed out everywhere',
  link_created: ({ name }) => `You made a sign-in link for ${text(name)}`,
  plan_set: ({ name, plan }) => `You changed the plan of ${text(name)} to ${text(plan)}`,
  user_added: ({ name }) => `The user ${text(name)} was added`,
  user_removed: ({ name }) => `The user ${text(name)} was removed`,
  export_downloaded: () => 'Your memories were downloaded',
  backup_downloaded: () => 'A backup of the whole server was downloaded',
  import: ({ file, imported }) =>
    `${text(file)} was imported: ${plural(Number(imported), 'new memory', 'new memories')}`,
  import_undone: ({ file, removed }) =>
    `The import of ${text(file)} was undone: ${plural(Number(removed), 'memory', 'memories')} removed`,
  writes_undone: ({ deleted, restored }) =>
    `Writes were undone: ${plural(Number(deleted), 'memory', 'memories')} deleted, ${text(restored)} restored`,
  memory_delete: ({ soft }) => (soft === false ? 'A note was deleted for good' : 'A note was archived'),
  memory_unlink: () => 'A link between two notes was deleted',
  delete_memory: ({ ref, for_good: isForGood }) =>
    `${describeRef(text(ref))} was ${isForGood ? 'deleted for good' : noteId(text(ref)) ? 'archived' : 'deleted'}`,
  prune_memory: ({ key }) => (text(key) ? `The fact ${quoted(key)} was deleted` : 'Facts were deleted'),
  remove_memory: ({ store, path }) => `The file ${quoted(path)} was deleted${from(store)}`,
  prune_memories: ({ store }) => `Expired files were deleted${from(store)}`,
  delete_entities: ({ names }) =>
    Array.isArray(names) ? `${plural(names.length, 'entity was', 'entities were')} deleted` : 'Entities were deleted',
  delete_observations: () => 'Observations were deleted',
  delete_relations: ({ relations }) =>
    Array.isArray(relations)
      ? `${plural(relations.length, 'relation was', 'relations were')} deleted`
      : 'Relations were deleted',
  archive_project: ({ name }) => `The project ${quoted(name)} was archived`,
  delete_project: ({ name }) => `The project ${quoted(name)} was deleted`,
  portal_delete: ({ portalUri, table, portal, deleted }) => {
    if (!text(table)) return `The portal ${text(portalUri)} was deleted`
    const of = `the table ${quoted(table)} of ${text(portalUri)}`
    return portal ? `T${of.slice(1)} was deleted` : `${plural(Number(deleted), 'row')} of ${of} deleted`
  },
}

interface Line {
  entry: Entry // the last of them
  sentence: string
  count: number
}

/** Entries that say the same one after the other are one line. */
export function auditLines(entries: Entry[]): Line[] {
  const lines: Line[] = []
  for (const entry of entries) {
    const sentence = auditLine(entry)
    const last = lines.at(-1)
    const isSame = last?.sentence === sentence && last.entry.client === entry.client && last.entry.ip === entry.ip
    if (isSame) last.count++
    else lines.push({ entry, sentence, count: 1 })
  }
  return lines
}

/** What happened, as a sentence. A tool's arguments are in `arguments`, unless they were too long to be recorded. */
export function auditLine({ action, details }: Pick<Entry, 'action' | 'details'>): string {
  const sentence = Object.hasOwn(SENTENCES, action) ? SENTENCES[action] : undefined
  const given = { ...details, ...(details.arguments as Record<string, unknown> | undefined) }
  return sentence ? sentence(given).replace(/ {2,}/g, ' ') : action.replaceAll('_', ' ')
}
