// Everywhere in one box: pages, actions, and whatever a search finds.
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { tool } from './api'
import { address } from './refs'
import { go } from './router'
import { choose, shown } from './theme'

interface Choice {
  kind: string
  title: string
  more?: string
  run: () => void
}

interface Hit {
  family: string
  ref: string
  title: string
  snippet: string
}

const MOST_HITS = 8
const WAIT = 150 // milliseconds after a key

const ACTIONS: Choice[] = [
  { kind: 'do', title: 'New note', run: () => go('/memories/new') },
  { kind: 'do', title: 'New file in a store', run: () => go('/stores/default?new=1') },
  { kind: 'do', title: 'Connect a client', run: () => go('/keys') },
  { kind: 'do', title: 'Deleted notes', run: () => go('/memories?archived=true') },
  { kind: 'do', title: 'Take my memories along: downloads in Settings', run: () => go('/settings') },
  { kind: 'do', title: 'Change between light and dark', run: () => choose(shown.value === 'dark' ? 'light' : 'dark') },
]

const fits = (choice: Choice, typed: string) =>
  typed
    .toLowerCase()
    .split(/\s+/)
    .every((word) => choice.title.toLowerCase().includes(word))

export function Palette({ pages, close }: { pages: [string, string][]; close: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null)
  const list = useRef<HTMLUListElement>(null)
  const [typed, setTyped] = useState('')
  const [hits, setHits] = useState<Choice[]>([])
  const [at, setAt] = useState(0)
  useLayoutEffect(() => dialog.current?.showModal(), []) // before the next key comes
  useEffect(() => {
    let isOver = false
    setAt(0)
    if (!typed.trim()) return setHits([])
    const timer = setTimeout(async () => {
      const { hits: found } = await tool<{ hits: Hit[] }>('recall_memories', { query: typed, limit: MOST_HITS }).catch(
        () => ({ hits: [] }),
      )
      const choices = found.map((hit) => ({
        kind: hit.family,
        title: hit.title,
        more: hit.snippet,
        run: () => go(address(hit.ref)),
      }))
      if (!isOver)
        setHits([
          ...choices.filter((hit) => fits(hit, typed.trim())),
          ...choices.filter((hit) => !fits(hit, typed.trim())),
        ]) // who types a name wants what is called so
    }, WAIT)
    return () => {
      isOver = true
      clearTimeout(timer)
    }
  }, [typed])
  const everywhere: Choice[] = [
    ...pages.map(([path, title]) => ({ kind: 'page', title, run: () => go('/' + path) })),
    ...ACTIONS,
  ]
  const search: Choice[] = typed.trim()
    ? [
        {
          kind: 'search',
          title: `Search everything for “${typed.trim()}”`,
          run: () => go('/memories?q=' + encodeURIComponent(typed.trim())),
        },
      ]
    : []
  const choices = [...everywhere.filter((choice) => fits(choice, typed.trim())), ...hits, ...search]
  const chosen = Math.min(at, choices.length - 1)
  useEffect(() => list.current?.children[chosen]?.scrollIntoView({ block: 'nearest' }), [chosen])
  const run = (choice: Choice | undefined) => {
    if (!choice) return
    close()
    choice.run()
    requestAnimationFrame(() => document.activeElement === document.body && document.getElementById('content')?.focus())
  }
  const onKey = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key]
    if (step) setAt((chosen + step + choices.length) % choices.length)
    else if (event.key === 'Home') setAt(0)
    else if (event.key === 'End') setAt(choices.length - 1)
    else if (event.key === 'Enter') run(choices[chosen])
    else return
    event.preventDefault()
  }
  return (
    <dialog
      ref={dialog}
      class="palette"
      aria-label="Go anywhere"
      onClose={close}
      onClick={(event) => event.target === dialog.current && close()}
    >
      <input
        autoFocus
        class="wide"
        type="text"
        role="combobox"
        aria-expanded="true"
        aria-controls="choices"
        aria-activedescendant={`choice${chosen}`}
        aria-autocomplete="list"
        aria-label="Go to a page, find a memory, do something"
        placeholder="A page, a memory, something to do"
        value={typed}
        onInput={(event) => setTyped(event.currentTarget.value)}
        onKeyDown={onKey}
      />
      <ul id="choices" ref={list} role="listbox" aria-label="Choices">
        {choices.map((choice, number) => (
          <li
            key={choice.kind + number}
            id={`choice${number}`}
            role="option"
            aria-selected={number === chosen}
            onMouseMove={() => setAt(number)}
            onClick={() => run(choice)}
          >
            <span class="kind">{choice.kind}</span> <b>{choice.title}</b>{' '}
            {choice.more && <span class="snippet">{choice.more}</span>}
          </li>
        ))}
      </ul>
    </dialog>
  )
}
