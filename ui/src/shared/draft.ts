// What somebody writes is theirs until they save or discard it: it outlives leaving the page, a reload and signing in again.
import { useEffect, useRef, useState } from 'preact/hooks'

interface Kept<T> {
  base: T // what it was started from: whoever saves compares with this, not with what others wrote meanwhile
  draft: T
}

export interface Draft<T> extends Kept<T> {
  isChanged: boolean
  /** Written before, and found again. */
  isBack: boolean
  set: (draft: T) => void
  /** Start from something else and keep what is written, as after somebody's change was looked at. */
  rebase: (base: T) => void
  /** After saving, or when it is not wanted: forget what was written. The next base is what is saved now. */
  forget: (base?: T) => void
}

const PREFIX = 'draft:'
const SOON = 300 // milliseconds after a key
const kept = new Map<string, Kept<unknown>>() // to the last letter, and where a browser has no room, or no storage
const unsaved = new Set<string>() // what is being written now

function read<T>(key: string): Kept<T> | null {
  if (kept.has(key)) return kept.get(key) as Kept<T>
  try {
    return JSON.parse(sessionStorage.getItem(PREFIX + key) ?? 'null') as Kept<T> | null
  } catch {
    return null // without storage there is what this page remembers
  }
}

function write(key: string): void {
  try {
    sessionStorage.setItem(PREFIX + key, JSON.stringify(kept.get(key)))
  } catch {
    // Too long for the storage: it lives as long as the page, and closing that asks.
  }
}

function drop(key: string): void {
  kept.delete(key)
  try {
    sessionStorage.removeItem(PREFIX + key)
  } catch {
    // There was none.
  }
}

/** Whether something is being written that nobody saved. */
export const hasUnsaved = () => unsaved.size > 0

/** When somebody signs out: the next person at this computer reads nothing of it. */
export function forgetAll(): void {
  unsaved.clear()
  kept.clear()
  try {
    for (const key of Object.keys(sessionStorage)) if (key.startsWith(PREFIX)) sessionStorage.removeItem(key)
  } catch {
    // There was none.
  }
}

addEventListener('beforeunload', (event) => {
  if (hasUnsaved()) event.preventDefault() // the browser asks
})

const isSame = (a: unknown, b: unknown) => JSON.stringify(a) === JSON.stringify(b)

/** What is written under a key, such as `note:ID`, from `start` or from where it was left. `left` is called when
 *  somebody goes elsewhere in the app without saving. */
export function useDraft<T>(key: string, start: T, left?: () => void): Draft<T> {
  const [now, setNow] = useState(() => ({ base: start, draft: start, isBack: false, ...found<T>(key) }))
  const timer = useRef(0)
  const isChanged = !isSame(now.base, now.draft)
  if (isChanged) kept.set(key, { base: now.base, draft: now.draft })
  const keep = () => {
    clearTimeout(timer.current)
    if (unsaved.has(key)) write(key)
  }
  useEffect(() => {
    if (isChanged) {
      unsaved.add(key)
      timer.current = window.setTimeout(keep, SOON)
    } else if (unsaved.delete(key)) drop(key)
    return () => clearTimeout(timer.current)
  }, [now])
  useEffect(() => {
    addEventListener('pagehide', keep)
    return () => {
      removeEventListener('pagehide', keep)
      keep()
      if (unsaved.delete(key)) left?.()
    }
  }, [])
  return {
    ...now,
    isChanged,
    set: (draft) => setNow((was) => ({ ...was, draft })),
    rebase: (base) => setNow((was) => ({ ...was, base })),
    forget: (base) => {
      unsaved.delete(key)
      drop(key)
      setNow((was) => ({ base: base ?? was.base, draft: base ?? was.base, isBack: false }))
    },
  }
}

function found<T>(key: string): (Kept<T> & { isBack: true }) | undefined {
  const before = read<T>(key)
  return before && !isSame(before.base, before.draft) ? { ...before, isBack: true } : undefined
}
