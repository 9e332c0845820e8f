// The address is the state: every view can be linked to, and the browser's back button undoes a step.
import { signal } from '@preact/signals'
import { decode, href } from './urls'

interface Route {
  path: string[]
  query: Record<string, string | undefined>
}

const SERVER_PAGES = /^\/(api|sign-in|assets)/

function currentRoute(): Route {
  const path = location.pathname.split('/').filter(Boolean).map(decode)
  return { path, query: Object.fromEntries(new URLSearchParams(location.search)) }
}

export const route = signal(currentRoute())

addEventListener('popstate', () => (route.value = currentRoute()))

export function navigate(address: string, replace = false): void {
  if (address === location.pathname + location.search) return
  const steps = stepCount()
  if (replace) history.replaceState({ steps }, '', address)
  else history.pushState({ steps: steps + 1 }, '', address)
  route.value = currentRoute()
  if (!replace) scrollTo(0, 0)
}

const stepCount = () => (history.state as { steps?: number } | null)?.steps ?? 0

/** Back to the previous page of this app, or to `fallback` if the user came from outside. */
export function back(fallback: string): void {
  if (stepCount()) history.back()
  else navigate(fallback, true)
}

/** Change only the query. Typing replaces the current step, choosing adds one. */
export function setQuery(query: Record<string, string | undefined>, replace = false): void {
  navigate(href(route.value.path, { ...route.value.query, ...query }), replace)
}

const isPlainClick = (event: MouseEvent) =>
  !(event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey || event.defaultPrevented)

const isPageOfThisApp = (link: HTMLAnchorElement) =>
  link.origin === location.origin && !link.target && !link.hasAttribute('download') && !SERVER_PAGES.test(link.pathname)

document.addEventListener('click', (event) => {
  const link = event.target instanceof Element ? event.target.closest('a') : null
  if (!link || !isPlainClick(event) || !isPageOfThisApp(link)) return
  event.preventDefault()
  navigate(link.pathname + link.search)
})
