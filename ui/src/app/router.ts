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

interface Step {
  steps?: number // before this one, in this app
  scrollPx?: number // where the user left the page
  link?: string // that the user followed
}

const currentStep = () => (history.state ?? {}) as Step
const stepCount = () => currentStep().steps ?? 0

history.scrollRestoration = 'manual' // the page is not as long at once

addEventListener('popstate', () => {
  route.value = currentRoute()
  restorePosition(currentStep())
})

/** Show the page as the user left it, as soon as it is long enough, unless the user does something meanwhile. */
function restorePosition({ scrollPx = 0, link }: Step): void {
  const stop = new AbortController()
  const observer = new ResizeObserver(() => {
    scrollTo(0, scrollPx)
    const followed = link ? document.querySelector<HTMLElement>(`main a[href="${CSS.escape(link)}"]`) : null
    followed?.focus({ preventScroll: true })
    if (scrollY >= Math.floor(scrollPx) && (followed || !link)) stop.abort()
  })
  stop.signal.addEventListener('abort', () => observer.disconnect())
  for (const event of ['wheel', 'keydown', 'pointerdown', 'popstate'])
    addEventListener(event, () => stop.abort(), { signal: stop.signal })
  requestAnimationFrame(() => stop.signal.aborted || observer.observe(document.body))
}

export function navigate(address: string, replace = false): void {
  if (address === location.pathname + location.search) return
  const steps = stepCount()
  if (replace) history.replaceState({ steps }, '', address)
  else {
    const link = document.activeElement?.getAttribute('href') ?? undefined
    history.replaceState({ steps, scrollPx: scrollY, link } satisfies Step, '')
    history.pushState({ steps: steps + 1 }, '', address)
  }
  route.value = currentRoute()
  if (!replace) scrollTo(0, 0)
}

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
