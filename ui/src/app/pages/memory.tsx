// The parts that pages of facts and entities share.
import type { ComponentChildren } from 'preact'
import { ago, shortTime } from '../../shared/format'
import { showError, toast } from '../../shared/toast'
import { post } from '../api'
import { asOneChange } from '../changes'
import { navigate } from '../router'
import { usePageTitle } from '../title'
import { href } from '../urls'

export const memoryHref = (ref: string, query: Record<string, string> = {}) =>
  href(['memories', 'open'], { ref, ...query })

export const editMemory = (ref: string, text: string, was: string) =>
  post('/api/memories/edit', { body: { ref, text, was } })

export async function restoreMemory(ref: string, title: string): Promise<void> {
  const { lost } = await asOneChange(() => post('/api/memories/restore', { body: { ref } }))
  toast(lost ? `“${title}” is restored, without ${lost}` : `“${title}” is restored`)
}

export async function deleteMemory(ref: string, title: string): Promise<void> {
  try {
    const deleted = await asOneChange(() => post('/api/memories/delete', { body: { ref } }))
    navigate('/memories')
    toast(`“${title}” is deleted`, { undo: () => restoreMemory(deleted.ref, title) })
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

/** When it was written and changed, after where it is. */
export function Origin({ place, created, updated }: { place: ComponentChildren; created: string; updated: string }) {
  return (
    <p class="mut">
      {place} · written {shortTime(created)}
      {updated > created && (
        <>
          {' '}
          · changed <span title={updated}>{ago(updated)}</span>
        </>
      )}
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
