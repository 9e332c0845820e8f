import { render, type FunctionComponent } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { hasUnsaved } from '../shared/draft'
import '../shared/style.css'
import { Toasts } from '../shared/toast'
import { message } from '../shared/words'
import './app.css'
import { isLive, isSignedOut, start } from './live'
import { Graph } from './pages/graph'
import { Home } from './pages/home'
import { Keys } from './pages/keys'
import { Memories } from './pages/memories'
import { Sessions } from './pages/sessions'
import { Settings } from './pages/settings'
import { Stores } from './pages/stores'
import { Sync } from './pages/sync'
import { Palette } from './palette'
import { go, where } from './router'
import { shown } from './theme'
import { ownTitle } from './title'

const PAGES: Record<string, [string, FunctionComponent]> = {
  '': ['Home', Home],
  memories: ['Memories', Memories],
  graph: ['Graph', Graph],
  stores: ['Stores', Stores],
  portals: ['Portals', LazyPortals],
  keys: ['Keys', Keys],
  sessions: ['Sessions', Sessions],
  sync: ['Sync', Sync],
  settings: ['Settings', Settings],
}

const IS_MAC = /Mac|iP/.test(navigator.platform) // where Ctrl K cuts a line
const MOD = IS_MAC ? '⌘' : 'Ctrl'

const SHORTCUTS: [string, string][] = [
  [MOD + ' K', 'go anywhere: a page, a memory, something to do'],
  ['/', 'search'],
  ['n', 'new note'],
  ['↑ ↓', 'move through what was found, or the rows of a table'],
  ['Space', 'select a row'],
  ['Delete', 'delete the selected rows'],
  ['Ctrl Enter', 'save a note, run a query'],
  ['Esc', 'close'],
  ['?', 'this list'],
]

/** The viewer is large (an SQL editor, charts); it comes when it is wanted. */
function LazyPortals() {
  const [Page, setPage] = useState<FunctionComponent | null>(null)
  const [trouble, setTrouble] = useState('')
  useEffect(() => {
    import('./pages/portals').then(
      (module) => setPage(() => module.default),
      (error) => setTrouble(message(error)),
    )
  }, [])
  if (Page) return <Page />
  return (
    <>
      <h1>Portals</h1>
      {trouble ? (
        <p class="empty" role="alert">
          {trouble}
        </p>
      ) : (
        <div class="skeleton" />
      )}
    </>
  )
}

function App() {
  const name = where.value.path[0] ?? ''
  const [title, Page] = PAGES[name] ?? ['Not found', Missing]
  const help = useRef<HTMLDialogElement>(null)
  const [isSeeking, setSeeking] = useState(false)
  useEffect(start, [])
  const called = ownTitle.value || placeName() || title
  useEffect(() => {
    document.title = `${called} · Memory`
  }, [called])
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (
        (IS_MAC ? event.metaKey : event.ctrlKey) &&
        !event.altKey &&
        !event.shiftKey &&
        event.key.toLowerCase() === 'k'
      ) {
        event.preventDefault()
        setSeeking((was) => !was)
        return
      }
      const target = event.composedPath()[0] as HTMLElement
      if (
        event.defaultPrevented ||
        event.ctrlKey ||
        event.metaKey ||
        event.altKey ||
        target.closest?.('input, textarea, select, [contenteditable]')
      )
        return
      if (event.key === '/') {
        const box = document.querySelector<HTMLInputElement>('[data-search]')
        if (box) box.focus()
        else go('/memories')
      } else if (event.key === 'n') go('/memories/new')
      else if (event.key === '?') help.current?.showModal()
      else return
      event.preventDefault()
    }
    addEventListener('keydown', onKey)
    return () => removeEventListener('keydown', onKey)
  }, [])
  return (
    <div class="shell">
      <a
        class="skip"
        href="#content"
        onClick={(event) => (event.preventDefault(), document.getElementById('content')?.focus())}
      >
        Skip to the content
      </a>
      <header>
        <strong>Memory</strong>
        <nav aria-label="Pages">
          {Object.entries(PAGES).map(([path, [label]]) => (
            <a key={path} href={'/' + path} aria-current={path === name ? 'page' : undefined}>
              {label}
            </a>
          ))}
        </nav>
        <Connection />
        <button class="link" onClick={() => setSeeking(true)}>
          Go to… <kbd>{MOD} K</kbd>
        </button>
        <button class="link" onClick={() => help.current?.showModal()}>
          Shortcuts <kbd>?</kbd>
        </button>
      </header>
      <main id="content" tabIndex={-1} key={shown.value}>
        <Page />
      </main>
      <dialog ref={help} aria-labelledby="shortcuts">
        <h2 id="shortcuts">Shortcuts</h2>
        <dl>
          {SHORTCUTS.map(([keys, what]) => (
            <div key={keys}>
              <dt>
                <kbd>{keys}</kbd>
              </dt>
              <dd>{what}</dd>
            </div>
          ))}
        </dl>
        <form method="dialog">
          <button>Close</button>
        </form>
      </dialog>
      {isSeeking && (
        <Palette
          pages={Object.entries(PAGES).map(([path, [label]]) => [path, label])}
          close={() => setSeeking(false)}
        />
      )}
      <Toasts />
    </div>
  )
}

/** A file of a store, or a portal, as it is called in its address. */
function placeName(): string {
  const [page, first, ...rest] = where.value.path
  if (page === 'stores' && where.value.query.file) return rest.join('/')
  return page === 'portals' && rest.length ? `mem://${first}/${rest[0]}` : ''
}

function Connection() {
  if (!isSignedOut.value)
    return <p class={isLive.value ? 'live on' : 'live'}>{isLive.value ? 'live' : 'not connected'}</p>
  const here = '/sign-in?next=' + encodeURIComponent(location.pathname + location.search)
  return (
    <p class="live" role="status">
      You are signed out.{' '}
      <a href={here} target={hasUnsaved() ? '_blank' : undefined}>
        Sign in
      </a>
    </p>
  ) // beside what is being written
}

function Missing() {
  return (
    <>
      <h1>There is no such page</h1>
      <p>
        <a href="/">Home</a>
      </p>
    </>
  )
}

render(<App />, document.getElementById('app')!)
