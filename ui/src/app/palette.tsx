// One box for pages, actions and search hits.
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { tool } from './api'
import { Marked } from './marks'
import { snippetText } from './plain-text'
import { refHref } from './refs'
import { navigate } from './router'
import { setTheme, shownTheme } from './theme'

interface Choice {
  kind: string
  title: string
  detail?: string
  run: () => void
}

const MAX_HITS = 8
const SEARCH_DELAY_MS = 150

const ACTIONS: Choice[] = [
  { kind: 'action', title: 'New note', run: () => navigate('/memories/new') },
  { kind: 'action', title: 'New file in a store', run: () => navigate('/stores/default?new=1') },
  { kind: 'action', title: 'Connect a client', run: () => navigate('/keys') },
  { kind: 'action', title: 'Archived notes', run: () => navigate('/memories?archived=true') },
  { kind: 'action', title: 'Download my memories: in Settings', run: () => navigate('/settings') },
  {
    kind: 'action',
    title: 'Switch between light and dark',
    run: () => setTheme(shownTheme.value === 'dark' ? 'light' : 'dark'),
  },
]

const matches = (choice: Choice, text: string) =>
  text
    .toLowerCase()
    .split(/\s+/)
    .every((word) => choice.title.toLowerCase().includes(word))

/** The hits of a search, first those with the words in the title. */
async function findHits(text: string): Promise<Choice[]> {
  const { hits } = await tool('recall_memories', { query: text, limit: MAX_HITS })
  const choices = hits.map(({ family, title, snippet, ref }) => ({
    kind: family,
    title,
    detail: snippetText(snippet),
    run: () => navigate(refHref(ref)),
  }))
  return [...choices.filter((hit) => matches(hit, text)), ...choices.filter((hit) => !matches(hit, text))]
}

export function Palette({ pages, onClose }: { pages: [string, string][]; onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null)
  const list = useRef<HTMLUListElement>(null)
  const [text, setText] = useState('')
  const [hits, setHits] = useState<Choice[]>([])
  const [emptyQuery, setEmptyQuery] = useState('') // the search that found nothing
  const [index, setIndex] = useState(0)
  useLayoutEffect(() => dialog.current?.showModal(), []) // before the next key event
  useEffect(() => {
    let isOutdated = false
    setIndex(0)
    setEmptyQuery('')
    const query = text.trim()
    if (!query) return setHits([])
    const show = (found: Choice[]) => {
      if (isOutdated) return
      setHits(found)
      if (!found.length) setEmptyQuery(query)
    }
    const timer = setTimeout(() => {
      findHits(query).then(show, () => !isOutdated && setHits([]))
    }, SEARCH_DELAY_MS)
    return () => {
      isOutdated = true
      clearTimeout(timer)
    }
  }, [text])
  const fixed: Choice[] = [
    ...pages.map(([path, title]) => ({ kind: 'page', title, run: () => navigate('/' + path) })),
    ...ACTIONS,
  ]
  const search: Choice[] = text.trim()
    ? [
        {
          kind: 'search',
          title: `Search everything for “${text.trim()}”`,
          run: () => navigate('/memories?q=' + encodeURIComponent(text.trim())),
        },
      ]
    : []
  const choices = [...fixed.filter((choice) => matches(choice, text.trim())), ...hits, ...search]
  const chosen = Math.min(index, choices.length - 1)
  useEffect(() => list.current?.children[chosen]?.scrollIntoView({ block: 'nearest' }), [chosen])
  const run = (choice: Choice | undefined) => {
    if (!choice) return
    onClose()
    choice.run()
    requestAnimationFrame(() => document.activeElement === document.body && document.getElementById('content')?.focus())
  }
  const onKey = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key]
    if (step) setIndex((chosen + step + choices.length) % choices.length)
    else if (event.key === 'Home') setIndex(0)
    else if (event.key === 'End') setIndex(choices.length - 1)
    else if (event.key === 'Enter') run(choices[chosen])
    else return
    event.preventDefault()
  }
  return (
    <dialog
      ref={dialog}
      class="palette"
      aria-label="Go anywhere"
      onClose={onClose}
      onClick={(event) => event.target === dialog.current && onClose()}
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
        aria-label="Go to a page or a memory, or run an action"
        placeholder="A page, a memory, an action"
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={onKey}
      />
      <ul id="choices" ref={list} role="listbox" aria-label="Choices">
        {choices.map((choice, position) => (
          <li
            key={choice.kind + position}
            id={`choice${position}`}
            role="option"
            aria-selected={position === chosen}
            onMouseMove={() => setIndex(position)}
            onClick={() => run(choice)}
          >
            <ChoiceText choice={choice} query={text.trim()} />
          </li>
        ))}
      </ul>
      <p class="mut" role="status">
        {emptyQuery && `No memory found for “${emptyQuery}”. Try fewer or other words.`}
      </p>
    </dialog>
  )
}

/** The words of the search are marked in memories. */
function ChoiceText({ choice, query }: { choice: Choice; query: string }) {
  const isMemory = !['page', 'action', 'search'].includes(choice.kind)
  return (
    <>
      <span class="kind">{choice.kind}</span>{' '}
      <b>{isMemory ? <Marked text={choice.title} query={query} /> : choice.title}</b>{' '}
      {choice.detail && (
        <span class="snippet">
          <Marked text={choice.detail} query={query} />
        </span>
      )}
    </>
  )
}
