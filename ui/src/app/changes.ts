// Changes as the server publishes them. One stream, and only while the tab is visible: a browser opens at most six
// connections to a server.
import { signal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'
import type { Schemas } from '../shared/api-types'

export const isConnected = signal(false)
export const isSignedOut = signal(false)

type Change = Pick<Schemas['Change'], 'uris' | 'list_changed' | 'topics'>
type Listener = (change: Change | null) => void // null: the stream was interrupted, so anything may have changed

const BATCH_MS = 250
const RECONNECT_MS = 2000
const listeners = new Set<Listener>()
let stream: EventSource | null = null
let wasConnected = false
let runningActions = 0
let endedActions = 0

function connect(): void {
  if (document.hidden) {
    stream?.close()
    stream = null
    isConnected.value = false
    return
  }
  if (stream) return
  stream = new EventSource('/api/events')
  stream.addEventListener('hello', () => {
    isConnected.value = true
    isSignedOut.value = false
    if (wasConnected) notify(null)
    wasConnected = true
  })
  stream.addEventListener('change', (event) => notify(JSON.parse((event as MessageEvent<string>).data) as Change))
  stream.onerror = () => {
    isConnected.value = false
    if (stream?.readyState !== EventSource.CLOSED) return // the browser reconnects by itself
    stream = null
    void reconnect()
  }
}

/** Connect again soon. A signed-out user connects when the tab gets the focus, perhaps after signing in. */
async function reconnect(): Promise<void> {
  const response = await fetch('/api/me').catch(() => null)
  isSignedOut.value = response?.status === 401
  if (!isSignedOut.value) setTimeout(connect, RECONNECT_MS)
}

function notify(change: Change | null): void {
  for (const listener of listeners) listener(change)
}

/** How many actions of this user have ended; a value that was asked for later has all of their changes. */
export const countEndedActions = () => endedActions

/** Run an action of many changes. Pages show none of them before it has ended, and then load once. */
export async function asOneChange<T>(action: () => Promise<T>): Promise<T> {
  runningActions += 1
  try {
    return await action()
  } finally {
    runningActions -= 1
    endedActions += 1
    notify(null)
  }
}

export function watchChanges(): void {
  document.addEventListener('visibilitychange', connect)
  addEventListener('focus', connect)
  connect()
}

/** The changes that concern a page: memories by their addresses, or topics alone. */
export interface ChangeFilter {
  uris?: (uri: string) => boolean
  topics?: string[]
}

export const MEMORY_CHANGES: ChangeFilter = { uris: () => true }

function isRelevant(change: Change, { uris, topics = [] }: ChangeFilter): boolean {
  const concernsUri = uris && (change.list_changed || change.uris.some(uris))
  return Boolean(concernsUri) || Boolean(change.topics?.some((topic) => topics.includes(topic)))
}

/** Call `onChange` at most once per batch interval while changes arrive, and not while an action runs. */
export function useChanges(onChange: () => void, filter: ChangeFilter = MEMORY_CHANGES): void {
  const callback = useRef(onChange)
  callback.current = onChange
  useEffect(() => {
    let timer = 0
    const listener = (change: Change | null) => {
      if (timer || (change && !isRelevant(change, filter))) return
      timer = window.setTimeout(() => {
        timer = 0
        if (!runningActions) callback.current() // else the end of the action calls it
      }, BATCH_MS)
    }
    listeners.add(listener)
    return () => {
      clearTimeout(timer)
      listeners.delete(listener)
    }
  }, [])
}
