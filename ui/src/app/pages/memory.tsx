// The parts that pages of facts and entities share.
import type { ComponentChildren } from 'preact'
import type { Schemas } from '../../shared/api-types'
import { ago, shortTime } from '../../shared/format'
import { showError, toast } from '../../shared/toast'
import { get, post } from '../api'
import { asOneChange } from '../changes'
import { useResource } from '../resource'
import { navigate } from '../router'
import { usePageTitle } from '../title'
import { href } from '../urls'
import { originLabel } from '../writes'

export type MemoryWrite = Schemas['MemoryWriteShown']

export const memoryHref = (ref: string, query: Record<string, string> = {}) =>
  href(['memories', 'open'], { ref, ...query })

export const editMemory = (ref: string, text: string, was: string) =>
  post('/api/memories/edit', { body: { ref, text, was } })

export async function restoreMemory(ref: string, title: string): Promise<void> {
  const { lost } = await asOneChange(() => post('/api/memories/restore', { body: { ref } }))
  toast(lost ? `“${title}” is restored, without ${lost}` : `“${title}” is restored`)
}

export async function deleteMemory(ref: string, title: string, verb = 'deleted'): Promise<void> {
  try {
    const deleted = await asOneChange(() => post('/api/memories/delete', { body: { ref } }))
    navigate('/memories')
    toast(`“${title}” is ${verb}`, { undo: () => restoreMemory(deleted.ref, title) })
  } catch (error) {
    showError(error)
  }
}

interface HeadingProps {
  reference: string
  title: string
  children?: ComponentChildren
}

/** The title, and what can be done with the memory. */
export function MemoryHeading({ reference, title, children }: HeadingProps) {
  usePageTitle(title)
  return (
    <div class="bar heading">
      <h1>{title}</h1>
      <span class="space" />
      <a class="button" href={memoryHref(reference, { edit: '1' })}>
        Edit
      </a>
      {children}
      <button class="danger" onClick={() => deleteMemory(reference, title)}>
        Delete
      </button>
    </div>
  )
}

interface OriginProps {
  place: ComponentChildren
  created: string
  updated: string
  writes: MemoryWrite[]
}

/** When it was written and changed, and by whom, after where it is. */
export function Origin({ place, created, updated, writes }: OriginProps) {
  return (
    <p class="mut">
      {place} · written {shortTime(created)}
      {updated > created && (
        <>
          {' '}
          · changed <span title={updated}>{ago(updated)}</span>
        </>
      )}
      {writes.length > 0 && ` · last by ${originLabel(writes[0]!.origin)}`}
    </p>
  )
}

/** The memory as programs see it, on demand. */
export function Source({ reference, value }: { reference: string; value: unknown }) {
  return (
    <details class="source">
      <summary>View source</summary>
      <p class="mut">
        <code>{reference}</code>
      </p>
      <pre tabIndex={0}>{JSON.stringify(value, null, 2)}</pre>
    </details>
  )
}

/** The last writes of a memory, the newest first; `version` changes when it was written again. */
export function useWrites(reference: string, version: string): MemoryWrite[] {
  const found = useResource(
    () => get('/api/memories/writes', { query: { ref: reference, limit: MAX_WRITES } }),
    [reference, version],
  )
  return found.value?.writes ?? []
}

const ACTIONS = { created: 'written', updated: 'changed', deleted: 'deleted' }
const UNDO_ACTIONS = { created: 'restored by an undo', updated: 'changed back', deleted: 'removed by an undo' }
const MAX_WRITES = 50

/** Who wrote it, and when. */
export function WriteList({ writes }: { writes: MemoryWrite[] }) {
  return (
    <details class="source">
      <summary>Who wrote it</summary>
      {writes.length ? (
        <ul aria-label="Writes">
          {writes.map(({ at, action, origin, title, is_undo }) => (
            <li key={at + title + action}>
              <time dateTime={at}>{shortTime(at)}</time> {(is_undo ? UNDO_ACTIONS : ACTIONS)[action]} by{' '}
              <b>{originLabel(origin)}</b>
              {title && `: ${title}`}
            </li>
          ))}
        </ul>
      ) : (
        <p>That is not recorded: another program wrote it, or it is older than the records.</p>
      )}
    </details>
  )
}
