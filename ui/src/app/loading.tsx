import type { ComponentChildren } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { message } from '../shared/words'
import { useChanges, type Concerns } from './live'

interface Loaded<T> {
  value: T | undefined
  trouble: string | null
  again: () => void
}

/** Something from the server, kept while it is asked for anew; an answer that comes too late is dropped. Whoever asks for
 *  what is asked for already gets another answer after that one: changes that come fast hold none up. */
export function useLoaded<T>(load: () => Promise<T>, needs: unknown[], concerns?: Concerns): Loaded<T> {
  const [found, setFound] = useState<{ value: T | undefined; trouble: string | null; key: string }>({
    value: undefined,
    trouble: null,
    key: '',
  })
  const asked = useRef<{ key: string; isAskedAgain: boolean } | null>(null)
  const key = JSON.stringify(needs)
  const again = () => {
    if (asked.current?.key === key) {
      asked.current.isAskedAgain = true
      return
    }
    const mine = (asked.current = { key, isAskedAgain: false })
    const settle = (value: T | undefined, trouble: string | null) => {
      if (mine !== asked.current) return
      asked.current = null
      setFound((was) => ({ value: trouble !== null && was.key === key ? was.value : value, trouble, key }))
      if (mine.isAskedAgain) again()
    }
    load().then(
      (value) => settle(value, null),
      (error) => settle(undefined, message(error)),
    )
  }
  useEffect(again, [key])
  useChanges(again, concerns)
  return {
    value: found.key === key || found.value !== undefined ? found.value : undefined,
    trouble: found.trouble,
    again,
  }
}

/** Draw again every minute: what was "just now" is not any more. Nothing is asked for. */
export function useMinutes(): void {
  const [, setMinute] = useState(0)
  useEffect(() => {
    const timer = setInterval(() => setMinute((minute) => minute + 1), 60_000)
    return () => clearInterval(timer)
  }, [])
}

/** With `keep`, what is shown stays when asking for it again fails: somebody may be writing in it. */
export function Awaited<T>({
  of,
  keep,
  children,
}: {
  of: Loaded<T>
  keep?: boolean
  children: (value: T) => ComponentChildren
}) {
  if (of.trouble && !(keep && of.value !== undefined)) {
    return (
      <p class="empty" role="alert">
        {of.trouble}{' '}
        <button class="link" onClick={of.again}>
          Try again
        </button>
      </p>
    )
  }
  if (of.value === undefined) {
    return (
      <div aria-busy="true" aria-label="Loading" role="status">
        <div class="skeleton" />
        <div class="skeleton" />
        <div class="skeleton" />
      </div>
    )
  }
  return <>{children(of.value)}</>
}
