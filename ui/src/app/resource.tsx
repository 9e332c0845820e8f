import type { ComponentChildren } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { errorMessage } from '../shared/format'
import { useChanges, type ChangeFilter } from './changes'

const MINUTE_MS = 60_000

export interface Resource<T> {
  value: T | undefined
  error: string | null
  reload: () => void
}

interface State<T> {
  value: T | undefined
  error: string | null
  key: string
}

const cache = new Map<string, { key: string; value: unknown }>() // the last value of each name

function cached(name: string | undefined, key: string): unknown {
  const found = name ? cache.get(name) : undefined
  return found?.key === key ? found.value : undefined
}

/** For signing out: the next user of this browser must not see any value. */
export const clearCache = () => cache.clear()

/** A value from the server, shown until its successor is loaded; responses to former `keys` are dropped. A reload
 *  during a request starts another one after it, so frequent changes delay no response. */
export function useResource<T>(
  load: () => Promise<T>,
  keys: unknown[],
  filter?: ChangeFilter,
  cacheName?: string, // to show the last value at once when the user comes back to the page
): Resource<T> {
  const key = JSON.stringify(keys)
  const [state, setState] = useState<State<T>>({ value: cached(cacheName, key) as T | undefined, error: null, key: '' })
  const pending = useRef<{ key: string; isStale: boolean } | null>(null)
  const reload = () => {
    if (pending.current?.key === key) {
      pending.current.isStale = true
      return
    }
    const current: typeof pending.current = { key, isStale: false }
    pending.current = current
    const settle = (value: T | undefined, error: string | null) => {
      if (current !== pending.current) return
      pending.current = null
      if (cacheName && value !== undefined) cache.set(cacheName, { key, value })
      setState((previous) => ({ value: error !== null && previous.key === key ? previous.value : value, error, key }))
      if (current.isStale) reload()
    }
    load().then(
      (value) => settle(value, null),
      (error: unknown) => settle(undefined, errorMessage(error)),
    )
  }
  useEffect(reload, [key])
  useChanges(reload, filter)
  return { value: state.value, error: state.error, reload }
}

/** Render again every minute, so that "just now" does not stay. No request is sent. */
export function useMinuteTick(): void {
  const [, setMinute] = useState(0)
  useEffect(() => {
    const timer = setInterval(() => setMinute((minute) => minute + 1), MINUTE_MS)
    return () => clearInterval(timer)
  }, [])
}

interface Props<T> {
  resource: Resource<T>
  keepStale?: boolean // show the last value when a reload fails: the user may be writing in it
  children: (value: T) => ComponentChildren
}

export function Await<T>({ resource, keepStale, children }: Props<T>) {
  if (resource.error && !(keepStale && resource.value !== undefined)) {
    return (
      <p class="empty" role="alert">
        {resource.error}{' '}
        <button class="link" onClick={resource.reload}>
          Try again
        </button>
      </p>
    )
  }
  if (resource.value === undefined) {
    return (
      <div aria-busy="true" aria-label="Loading" role="status">
        <div class="skeleton" />
        <div class="skeleton" />
        <div class="skeleton" />
      </div>
    )
  }
  return <>{children(resource.value)}</>
}
