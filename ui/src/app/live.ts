// What changes, as it happens. One stream, only while the tab is seen: a browser has six connections for a server.
import { signal } from '@preact/signals'
import { useEffect, useRef } from 'preact/hooks'

export const isLive = signal(false)

interface Change {
  uris: string[]
  list_changed: boolean
}

type Listener = (change: Change) => void
const listeners = new Set<Listener>()
let stream: EventSource | null = null

function follow(): void {
  if (document.hidden) {
    stream?.close()
    stream = null
    isLive.value = false
    return
  }
  if (stream) return
  let isNew = true
  stream = new EventSource('/api/events')
  stream.addEventListener('hello', () => {
    isLive.value = true
    if (!isNew) tell({ uris: [], list_changed: true }) // something may have happened meanwhile
    isNew = false
  })
  stream.addEventListener('change', (event) => tell(JSON.parse((event as MessageEvent<string>).data)))
  stream.onerror = () => (isLive.value = false)
}

function tell(change: Change): void {
  for (const listener of listeners) listener(change)
}

export function start(): void {
  document.addEventListener('visibilitychange', follow)
  follow()
}

/** Call `react` soon after something changed, once for many changes. */
export function useChanges(react: () => void, concerns: (uri: string) => boolean = () => true): void {
  const now = useRef(react)
  now.current = react
  useEffect(() => {
    let timer = 0
    const listener = (change: Change) => {
      if (!change.list_changed && !change.uris.some(concerns)) return
      clearTimeout(timer)
      timer = window.setTimeout(() => now.current(), 250)
    }
    listeners.add(listener)
    return () => {
      clearTimeout(timer)
      listeners.delete(listener)
    }
  }, [])
}
