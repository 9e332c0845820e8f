// The text of a memory: a toolbar, titles that complete [[links]], and the preview beside it.
import type { TargetedClipboardEvent, TargetedKeyboardEvent } from 'preact'
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { Bold, Brackets, Code, Heading, Italic, List, ListChecks, Quote } from 'lucide'
import { showError } from '../shared/toast'
import { get } from './api'
import { Icon, type IconNode } from './icon'
import { completeTitle, insertLink, startedTitle, toggleMarks, togglePrefix, type Selected } from './text-edits'

const MAX_TITLES = 8
const LOOKUP_DELAY_MS = 120

type Edit = (selected: Selected) => Selected

const TOOLS: [label: string, icon: IconNode, edit: Edit][] = [
  ['Bold', Bold, (selected) => toggleMarks(selected, '**')],
  ['Italic', Italic, (selected) => toggleMarks(selected, '*')],
  ['Heading', Heading, (selected) => togglePrefix(selected, '## ')],
  ['List', List, (selected) => togglePrefix(selected, '- ')],
  ['Tasks', ListChecks, (selected) => togglePrefix(selected, '- [ ] ')],
  ['Quote', Quote, (selected) => togglePrefix(selected, '> ')],
  ['Code', Code, (selected) => toggleMarks(selected, '`')],
  ['Link to a note', Brackets, insertLink],
]

interface Props {
  label: string
  value: string
  isRequired: boolean
  focuses: boolean
  linksNotes: boolean // [[Title]] is a link here
  onChange: (text: string) => void
}

export function TextField({ label, value, isRequired, focuses, linksNotes, onChange }: Props) {
  const area = useRef<HTMLTextAreaElement>(null)
  const caret = useRef<Selected | null>(null) // to be set once the text is rendered
  const completion = useTitles(linksNotes)
  useLayoutEffect(() => {
    if (focuses) area.current?.focus() // before the first paint: later it would take the focus from another field
  }, [])
  useLayoutEffect(() => {
    if (!caret.current || !area.current) return
    area.current.setSelectionRange(caret.current.start, caret.current.end)
    caret.current = null
  }, [value])
  const apply = (edit: Edit) => {
    const { selectionStart: start, selectionEnd: end } = area.current!
    caret.current = edit({ text: value, start, end })
    area.current!.focus()
    onChange(caret.current.text)
  }
  const complete = (title: string) => {
    apply(({ text, end }) => completeTitle(text, end, title))
    completion.close()
  }
  return (
    <div class="text-field">
      <div class="bar" role="toolbar" aria-label="Format">
        {TOOLS.filter(([, , edit]) => linksNotes || edit !== insertLink).map(([name, icon, edit]) => (
          <button key={name} type="button" aria-label={name} title={name} onClick={() => apply(edit)}>
            <Icon node={icon} />
          </button>
        ))}
      </div>
      <label>
        {label}
        <textarea
          ref={area}
          required={isRequired}
          rows={16}
          value={value}
          aria-autocomplete={linksNotes ? 'list' : undefined}
          aria-controls={completion.titles.length ? 'titles' : undefined}
          aria-activedescendant={completion.titles.length ? `title${completion.chosen}` : undefined}
          onInput={({ currentTarget }) => {
            onChange(currentTarget.value)
            completion.lookUp(startedTitle(currentTarget.value, currentTarget.selectionEnd))
          }}
          onKeyDown={(event) => completion.onKey(event, complete)}
          onPaste={refuseImages}
          onBlur={completion.close}
        />
      </label>
      <TitleList titles={completion.titles} chosen={completion.chosen} onChoose={complete} />
    </div>
  )
}

function refuseImages(event: TargetedClipboardEvent<HTMLTextAreaElement>): void {
  const items = [...(event.clipboardData?.items ?? [])]
  if (!items.some((item) => item.kind === 'file') || items.some((item) => item.kind === 'string')) return
  event.preventDefault()
  showError(new Error('A memory holds text only. Save the picture as a file, and write down where it is.'))
}

/** The titles for a link that is being written. */
function useTitles(isOn: boolean) {
  const [titles, setTitles] = useState<string[]>([])
  const [chosen, setChosen] = useState(0)
  const timer = useRef(0)
  const close = () => {
    clearTimeout(timer.current)
    setTitles([])
  }
  useEffect(() => () => clearTimeout(timer.current), [])
  const lookUp = (start: string | null) => {
    clearTimeout(timer.current)
    if (!isOn || start === null) return setTitles([])
    timer.current = window.setTimeout(() => {
      get('/api/notes/titles', { query: { q: start, limit: MAX_TITLES } })
        .then(({ titles: found }) => {
          setTitles(found)
          setChosen(0)
        })
        .catch(() => setTitles([])) // writing goes on without
    }, LOOKUP_DELAY_MS)
  }
  const onKey = (event: TargetedKeyboardEvent<HTMLTextAreaElement>, complete: (title: string) => void) => {
    if (!titles.length || event.isComposing || event.ctrlKey || event.metaKey) return
    if (event.key === 'ArrowDown') setChosen((chosen + 1) % titles.length)
    else if (event.key === 'ArrowUp') setChosen((chosen + titles.length - 1) % titles.length)
    else if (event.key === 'Enter' || event.key === 'Tab') complete(titles[chosen]!)
    else if (event.key === 'Escape') close()
    else return
    event.preventDefault()
    event.stopPropagation()
  }
  return { titles, chosen, close, lookUp, onKey }
}

interface ListProps {
  titles: string[]
  chosen: number
  onChoose: (title: string) => void
}

function TitleList({ titles, chosen, onChoose }: ListProps) {
  if (!titles.length) return null
  return (
    <ul id="titles" class="titles" role="listbox" aria-label="Notes to link to">
      {titles.map((title, at) => (
        <li
          key={title}
          id={`title${at}`}
          role="option"
          aria-selected={at === chosen}
          onMouseDown={(event) => {
            event.preventDefault() // the text keeps the focus
            onChoose(title)
          }}
        >
          {title}
        </li>
      ))}
    </ul>
  )
}
