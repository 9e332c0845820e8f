import type { ComponentChildren } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { message } from '../shared/words'
import { useChanges } from './live'

interface Loaded<T> {
  value: T | undefined
  trouble: string | null
  again(): void
}

/** Something from the server, kept while it is asked for anew; an answer that comes too late is dropped. */
export function useLoaded<T>(load: () => Promise<T>, needs: unknown[], concerns?: (uri: string) => boolean): Loaded<T> {
  const [found, setFound] = useState<{ value: T | undefined; trouble: string | null; key: string }>({ value: undefined, trouble: null, key: '' })
  const asked = useRef(0)
  const key = JSON.stringify(needs)
  const again = () => {
    const mine = ++asked.current
    load().then(
      (value) => mine === asked.current && setFound({ value, trouble: null, key }),
      (error) => mine === asked.current && setFound({ value: undefined, trouble: message(error), key }),
    )
  }
  useEffect(again, [key])
  useChanges(again, concerns)
  return { value: found.key === key || found.value !== undefined ? found.value : undefined, trouble: found.trouble, again }
}

/** `look` every few seconds while the tab is seen. */
export function useEvery(milliseconds: number, look: () => void): void {
  const now = useRef(look)
  now.current = look
  useEffect(() => {
    const timer = setInterval(() => !document.hidden && now.current(), milliseconds)
    return () => clearInterval(timer)
  }, [milliseconds])
}

export function Awaited<T>({ of, children }: { of: Loaded<T>; children(value: T): ComponentChildren }) {
  if (of.trouble) {
    return (
      <p class="empty" role="alert">
        {of.trouble} <button class="link" onClick={of.again}>Try again</button>
      </p>
    )
  }
  if (of.value === undefined) {
    return (
      <div aria-busy="true" aria-label="Loading" role="status">
        <div class="skeleton" /><div class="skeleton" /><div class="skeleton" />
      </div>
    )
  }
  return <>{children(of.value)}</>
}
