// What changes, as it happens. One stream, only while the tab is seen: a browser has six connections for a server.
import { signal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'

export const isLive = signal(false)
export const isSignedOut = signal(false)

interface Change {
  uris: string[]
  list_changed: boolean
  topics: string[]
}

type Listener = (change: Change | null) => void // null: nobody knows what was missed
const SOON = 250 // milliseconds in which changes are gathered
const listeners = new Set<Listener>()
let stream: EventSource | null = null
let wasLive = false

function follow(): void {
  if (document.hidden) {
    stream?.close()
    stream = null
    isLive.value = false
    return
  }
  if (stream) return
  stream = new EventSource('/api/events')
  stream.addEventListener('hello', () => {
    isLive.value = true
    isSignedOut.value = false
    if (wasLive) tell(null)
    wasLive = true
  })
  stream.addEventListener('change', (event) => tell(JSON.parse((event as MessageEvent<string>).data)))
  stream.onerror = () => {
    isLive.value = false
    if (stream?.readyState !== EventSource.CLOSED) return // else it comes back by itself
    stream = null
    void comeBack()
  }
}

/** Soon, unless nobody is signed in: then when somebody comes back to this tab, maybe from signing in. */
async function comeBack(): Promise<void> {
  const answer = await fetch('/api/me').catch(() => null)
  isSignedOut.value = answer?.status === 401
  if (!isSignedOut.value) setTimeout(follow, 2000)
}

function tell(change: Change | null): void {
  for (const listener of listeners) listener(change)
}

export function start(): void {
  document.addEventListener('visibilitychange', follow)
  addEventListener('focus', follow)
  follow()
}

/** What a page wants to hear of: memories by their addresses, or topics alone. */
export interface Concerns {
  uris?: (uri: string) => boolean
  topics?: string[]
}

export const MEMORIES: Concerns = { uris: () => true }

/** Call `react` soon after something changed, once for many changes, and at least so often while they go on. */
export function useChanges(react: () => void, concerns: Concerns = MEMORIES): void {
  const now = useRef(react)
  now.current = react
  useEffect(() => {
    let timer = 0
    const { uris, topics = [] } = concerns
    const listener = (change: Change | null) => {
      const isOurs =
        !change ||
        (uris && (change.list_changed || change.uris.some(uris))) ||
        change.topics.some((topic) => topics.includes(topic))
      if (!isOurs || timer) return
      timer = window.setTimeout(() => {
        timer = 0
        now.current()
      }, SOON)
    }
    listeners.add(listener)
    return () => {
      clearTimeout(timer)
      listeners.delete(listener)
    }
  }, [])
}
