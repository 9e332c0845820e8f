// Unsaved text stays until the user saves or discards it: it survives leaving the page, a reload and signing in again.
import { useEffect, useRef, useState } from 'preact/hooks'
import { QUERIES_PREFIX } from './query-history'

interface StoredDraft<T> {
  base: T // what the user started from; saving compares with this
  draft: T
}

export interface Draft<T> extends StoredDraft<T> {
  isChanged: boolean
  /** It was written earlier and loaded from the storage. */
  isRestored: boolean
  set: (draft: T) => void
  /** Delete the draft, after saving it or instead. Editing continues from `base`. */
  discard: (base?: T) => void
}

const PREFIX = 'draft:'
const WRITE_DELAY_MS = 300 // after the last key
const drafts = new Map<string, StoredDraft<unknown>>() // newer than the storage, and complete where that is full
const unsaved = new Set<string>() // keys of the drafts on the page

function loadDraft<T>(key: string): StoredDraft<T> | null {
  if (drafts.has(key)) return drafts.get(key) as StoredDraft<T>
  try {
    return JSON.parse(sessionStorage.getItem(PREFIX + key) ?? 'null') as StoredDraft<T> | null
  } catch {
    return null // no storage: drafts last as long as the page
  }
}

function storeDraft(key: string): void {
  try {
    sessionStorage.setItem(PREFIX + key, JSON.stringify(drafts.get(key)))
  } catch {
    // The storage is full: the draft lasts as long as the page, and closing the page asks first.
  }
}

function removeDraft(key: string): void {
  drafts.delete(key)
  try {
    sessionStorage.removeItem(PREFIX + key)
  } catch {
    // No storage.
  }
}

/** Whether the page shows unsaved text. */
export const hasUnsaved = () => unsaved.size > 0

/** For signing out: the next user of this browser must not read any draft or query. */
export function discardAll(): void {
  unsaved.clear()
  drafts.clear()
  try {
    for (const key of Object.keys(sessionStorage)) if (key.startsWith(PREFIX)) sessionStorage.removeItem(key)
    for (const key of Object.keys(localStorage)) if (key.startsWith(QUERIES_PREFIX)) localStorage.removeItem(key)
  } catch {
    // No storage.
  }
}

addEventListener('beforeunload', (event) => {
  if (hasUnsaved()) event.preventDefault() // the browser asks first
})

const isEqual = (a: unknown, b: unknown) => JSON.stringify(a) === JSON.stringify(b)

/** The draft of a key, such as `note:ID`: the stored one, or `initial`. `onLeave` is called when the user goes to
 *  another page without saving. */
export function useDraft<T>(key: string, initial: T, onLeave?: () => void): Draft<T> {
  const [state, setState] = useState(() => ({
    base: initial,
    draft: initial,
    isRestored: false,
    ...restoreDraft<T>(key),
  }))
  const timer = useRef(0)
  const isChanged = !isEqual(state.base, state.draft)
  if (isChanged) drafts.set(key, { base: state.base, draft: state.draft })
  const flush = () => {
    clearTimeout(timer.current)
    if (unsaved.has(key)) storeDraft(key)
  }
  useEffect(() => {
    if (isChanged) {
      unsaved.add(key)
      timer.current = window.setTimeout(flush, WRITE_DELAY_MS)
    } else if (unsaved.delete(key)) removeDraft(key)
    return () => clearTimeout(timer.current)
  }, [state])
  useEffect(() => {
    addEventListener('pagehide', flush)
    return () => {
      removeEventListener('pagehide', flush)
      flush()
      if (unsaved.delete(key)) onLeave?.()
    }
  }, [])
  return {
    ...state,
    isChanged,
    set: (draft) => setState((previous) => ({ ...previous, draft })),
    discard: (base) => {
      unsaved.delete(key)
      removeDraft(key)
      setState((previous) => ({ base: base ?? previous.base, draft: base ?? previous.base, isRestored: false }))
    },
  }
}

function restoreDraft<T>(key: string): (StoredDraft<T> & { isRestored: true }) | undefined {
  const stored = loadDraft<T>(key)
  return stored && !isEqual(stored.base, stored.draft) ? { ...stored, isRestored: true } : undefined
}
