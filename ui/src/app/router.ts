// The address is the state: what a page shows can be linked to, and the browser's back button undoes a step.
import { signal } from '@preact/signals'

interface Where {
  path: string[]
  query: Record<string, string>
}

/** As it stands, where its % signs mean nothing. */
export function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

function read(): Where {
  const path = location.pathname.split('/').filter(Boolean).map(decoded)
  return { path, query: Object.fromEntries(new URLSearchParams(location.search)) }
}

export const where = signal(read())

addEventListener('popstate', () => (where.value = read()))

/** An address of this app. Empty values are left out. */
export function to(path: string[], query: Record<string, string | undefined> = {}): string {
  const given = Object.entries(query).filter((pair): pair is [string, string] => Boolean(pair[1]))
  const search = new URLSearchParams(given).toString()
  return '/' + path.map(encodeURIComponent).join('/') + (search ? '?' + search : '')
}

export function go(address: string, replace = false): void {
  if (address === location.pathname + location.search) return
  const steps = stepsHere()
  if (replace) history.replaceState({ steps }, '', address)
  else history.pushState({ steps: steps + 1 }, '', address)
  where.value = read()
  if (!replace) scrollTo(0, 0)
}

const stepsHere = () => (history.state as { steps?: number } | null)?.steps ?? 0

/** To where somebody came from in this app; who came from outside goes to `otherwise`. */
export function back(otherwise: string): void {
  if (stepsHere()) history.back()
  else go(otherwise, true)
}

/** Change the query alone; typing replaces, choosing adds a step. */
export function turn(query: Record<string, string | undefined>, replace = false): void {
  go(to(where.value.path, { ...where.value.query, ...query }), replace)
}

document.addEventListener('click', (event) => {
  const link = (event.target as Element).closest?.('a')
  if (
    !link ||
    event.button ||
    event.metaKey ||
    event.ctrlKey ||
    event.shiftKey ||
    event.altKey ||
    event.defaultPrevented
  )
    return
  if (
    link.origin !== location.origin ||
    link.target ||
    link.hasAttribute('download') ||
    /^\/(api|sign-in|assets)/.test(link.pathname)
  )
    return
  event.preventDefault()
  go(link.pathname + link.search)
})
