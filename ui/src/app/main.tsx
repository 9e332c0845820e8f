import { render, type FunctionComponent, type RefObject } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import {
  ArrowDownUp,
  Ellipsis,
  Folder,
  History,
  House,
  KeyRound,
  MessagesSquare,
  NotebookText,
  PlugZap,
  RefreshCw,
  Settings,
  Table2,
  Users,
  Waypoints,
} from 'lucide'
import { hasUnsaved } from '../shared/draft'
import { showInvisibleCharacters, shown } from '../shared/invisible'
import '../shared/style.css'
import { Toasts } from '../shared/toast'
import { errorMessage } from '../shared/format'
import './app.css'
import { isConnected, isSignedOut, watchChanges } from './changes'
import { Icon, type IconNode } from './icon'
import { isOwner, loadOwner } from './owner'
import { Home } from './pages/home'
import { Memories } from './pages/memories'
import { Palette } from './palette'
import { navigate, route } from './router'
import { shownTheme } from './theme'
import { pageTitle } from './title'

/** A page that is loaded when it is opened first: a visitor waits only for the code of the page that they see. */
function lazy(title: string, load: () => Promise<FunctionComponent>): FunctionComponent {
  let Loaded: FunctionComponent | null = null
  return function LazyPage() {
    const [Page, setPage] = useState(() => Loaded)
    const [error, setError] = useState('')
    useEffect(() => {
      if (Page) return
      load().then(
        (loaded) => {
          Loaded = loaded
          setPage(() => loaded)
        },
        (thrown: unknown) => setError(errorMessage(thrown)),
      )
    }, [])
    if (Page) return <Page />
    return (
      <>
        <h1>{title}</h1>
        {error ? (
          <p class="empty" role="alert">
            {error}
          </p>
        ) : (
          <div class="skeleton" role="status" aria-busy="true" aria-label="Loading" />
        )}
      </>
    )
  }
}

const PAGES: Record<string, [string, FunctionComponent]> = {
  '': ['Home', Home],
  memories: ['Memories', Memories],
  conversations: [
    'Conversations',
    lazy('Conversations', async () => (await import('./pages/conversations')).Conversations),
  ],
  graph: ['Graph', lazy('Graph', async () => (await import('./pages/graph')).Graph)],
  stores: ['Files', lazy('Files', async () => (await import('./pages/stores')).Stores)],
  portals: ['Tables', lazy('Tables', async () => (await import('./pages/portals')).default)],
  import: ['Import and export', lazy('Import and export', async () => (await import('./pages/import')).default)],
  keys: ['Connect', lazy('Connect a client', async () => (await import('./pages/keys')).Keys)],
  writes: ['Who wrote what', lazy('Who wrote what', async () => (await import('./pages/write-review')).default)],
  sessions: ['Sessions', lazy('Sessions', async () => (await import('./pages/sessions')).Sessions)],
  people: ['People', lazy('People', async () => (await import('./pages/people')).default)],
  sync: ['Sync', lazy('Sync', async () => (await import('./pages/sync')).Sync)],
  settings: ['Settings', lazy('Settings', async () => (await import('./pages/settings')).Settings)],
}

const ICONS: Record<string, IconNode> = {
  '': House,
  memories: NotebookText,
  conversations: MessagesSquare,
  graph: Waypoints,
  stores: Folder,
  portals: Table2,
  import: ArrowDownUp,
  keys: KeyRound,
  writes: History,
  sessions: PlugZap,
  people: Users,
  sync: RefreshCw,
  settings: Settings,
}

/** The pages that the user may see, by path: People is for the owner of the server. */
const pageLabels = () =>
  Object.entries(PAGES)
    .filter(([path]) => path !== 'people' || isOwner.value)
    .map(([path, [label]]): [string, string] => [path, label])
const PHONE_PAGES = ['', 'memories', 'graph', 'stores'] // in the bar at the bottom, before "More"

const NOT_FOUND: [string, FunctionComponent] = ['Not found', NotFound]

const IS_MAC = /Mac|iP/.test(navigator.userAgent) // there, Ctrl K deletes to the end of the line
const MOD_KEY = IS_MAC ? '⌘' : 'Ctrl'

const SHORTCUTS: [string, string][] = [
  [MOD_KEY + ' K', 'go to a page or a memory, or run an action'],
  ['/', 'search'],
  ['n', 'new note'],
  ['↑ ↓', 'move through the hits, or the rows of a table'],
  ['x', 'select a memory of the list'],
  ['Space', 'select a row'],
  ['Delete', 'delete the selected rows'],
  ['Ctrl Enter', 'save, or run a query'],
  ['Esc', 'close'],
  ['?', 'this list'],
]

const isPaletteKey = (event: KeyboardEvent) =>
  (IS_MAC ? event.metaKey : event.ctrlKey) && !event.altKey && !event.shiftKey && event.key.toLowerCase() === 'k'

const TEXT_FIELDS =
  'input:not([type=checkbox], [type=radio], [type=range], [type=file]), textarea, select, [contenteditable]'

function isTyping(event: KeyboardEvent): boolean {
  const [target] = event.composedPath()
  return target instanceof Element && target.closest(TEXT_FIELDS) !== null
}

/** The shortcuts that work on every page. */
function useShortcuts(togglePalette: () => void, showHelp: () => void): void {
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (isPaletteKey(event)) {
        event.preventDefault()
        togglePalette()
        return
      }
      if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || isTyping(event)) return
      if (event.key === '/') {
        const box = document.querySelector<HTMLInputElement>('[data-search]')
        if (box) box.focus()
        else navigate('/memories')
      } else if (event.key === 'n') navigate('/memories/new')
      else if (event.key === '?') showHelp()
      else return
      event.preventDefault()
    }
    addEventListener('keydown', onKey)
    return () => removeEventListener('keydown', onKey)
  }, [])
}

/** The content gets the focus when what had it is gone with the former page: keys and screen readers go on there. */
function useFocusOnNewPage(): void {
  const address = route.value
  const first = useRef(address)
  useEffect(() => {
    if (address !== first.current && document.activeElement === document.body)
      document.getElementById('content')?.focus({ preventScroll: true })
  }, [address])
}

function App() {
  const name = route.value.path[0] ?? ''
  const [title, Page] = Object.hasOwn(PAGES, name) ? PAGES[name]! : NOT_FOUND
  const help = useRef<HTMLDialogElement>(null)
  const [isPaletteOpen, setPaletteOpen] = useState(false)
  const showHelp = () => help.current?.showModal()
  useEffect(watchChanges, [])
  useEffect(loadOwner, [])
  useFocusOnNewPage()
  useShortcuts(() => setPaletteOpen((isOpen) => !isOpen), showHelp)
  const shownTitle = pageTitle.value || itemTitle() || title
  useEffect(() => {
    document.title = `${shown(shownTitle)} · Memory`
  }, [shownTitle])
  return (
    <div class="shell">
      <SkipLink />
      <header>
        <strong>Memory</strong>
        <Navigation name={name} />
        <Connection />
        <button class="link" onClick={() => setPaletteOpen(true)}>
          Go to… <kbd>{MOD_KEY} K</kbd>
        </button>
        <button class="link keyboard" onClick={showHelp}>
          Shortcuts <kbd>?</kbd>
        </button>
      </header>
      <main id="content" tabIndex={-1} key={shownTheme.value}>
        <Page />
      </main>
      <ShortcutList dialog={help} />
      {isPaletteOpen && <Palette pages={pageLabels()} onClose={() => setPaletteOpen(false)} />}
      <Toasts />
    </div>
  )
}

function SkipLink() {
  const skip = (event: Event) => {
    event.preventDefault()
    document.getElementById('content')?.focus()
  }
  return (
    <a class="skip" href="#content" onClick={skip}>
      Skip to the content
    </a>
  )
}

function ShortcutList({ dialog }: { dialog: RefObject<HTMLDialogElement | null> }) {
  return (
    <dialog ref={dialog} aria-labelledby="shortcuts">
      <h2 id="shortcuts">Shortcuts</h2>
      <dl>
        {SHORTCUTS.map(([keys, effect]) => (
          <div key={keys}>
            <dt>
              <kbd>{keys}</kbd>
            </dt>
            <dd>{effect}</dd>
          </div>
        ))}
      </dl>
      <form method="dialog">
        <button>Close</button>
      </form>
    </dialog>
  )
}

/** All pages beside the content; on a phone, the first ones in a bar at the bottom and the others behind "More". */
function Navigation({ name }: { name: string }) {
  const [isOpen, setOpen] = useState(false)
  const address = route.value
  useEffect(() => setOpen(false), [address])
  const onKey = (event: KeyboardEvent) => {
    if (event.key === 'Escape') setOpen(false)
  }
  return (
    <nav aria-label="Pages" class={isOpen ? 'open' : ''} onKeyDown={onKey}>
      {pageLabels().map(([path, label]) => (
        <a
          key={path}
          class={PHONE_PAGES.includes(path) ? '' : 'further'}
          href={'/' + path}
          aria-current={path === name ? 'page' : undefined}
        >
          <Icon node={ICONS[path]!} />
          {label}
        </a>
      ))}
      <button class="more" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        <Icon node={Ellipsis} />
        More
      </button>
    </nav>
  )
}

/** The name of a store's file or of a portal, from the address. */
function itemTitle(): string {
  const [page, first, ...rest] = route.value.path
  if (page === 'stores' && route.value.query.file) return rest.join('/')
  return page === 'portals' && rest.length ? `mem://${first!}/${rest[0]!}` : ''
}

function Connection() {
  if (!isSignedOut.value)
    return <p class={isConnected.value ? 'live on' : 'live'}>{isConnected.value ? 'live' : 'not connected'}</p>
  // In another tab while there is unsaved text.
  const signIn = '/sign-in?next=' + encodeURIComponent(location.pathname + location.search)
  return (
    <p class="live" role="status">
      You are signed out.{' '}
      <a href={signIn} target={hasUnsaved() ? '_blank' : undefined}>
        Sign in
      </a>
    </p>
  )
}

function NotFound() {
  return (
    <>
      <h1>There is no such page</h1>
      <p>
        <a href="/">Home</a>
      </p>
    </>
  )
}

showInvisibleCharacters()
render(<App />, document.getElementById('app')!)
