import { useEffect, useState } from 'preact/hooks'
import { tool } from '../api'
import { useLoaded } from '../loading'
import { turn, where } from '../router'

/** What is wanted of notes beside words, as /api/notes takes it and as the address has it. */
export interface Wish {
  tag: string
  namespace: string
  folder: string
  source: string
  min_importance: string
  since: string
  until: string
  archived: string
}

const NAMES = ['tag', 'namespace', 'folder', 'source', 'min_importance', 'since', 'until', 'archived'] as const
const SOURCES: Record<string, string> = { ui: 'written here', mcp: 'by agents', import: 'moved in', sync: 'synced' }
const IMPORTANCE = ['0.3', '0.5', '0.7', '0.9']

export const filtersOf = (query: Record<string, string>) =>
  Object.fromEntries(NAMES.map((name) => [name, query[name] ?? ''])) as unknown as Wish

function said(name: keyof Wish, value: string): string {
  switch (name) {
    case 'tag':
      return '#' + value
    case 'source':
      return SOURCES[value] ?? value
    case 'min_importance':
      return `importance ${value} or more`
    case 'since':
      return `from ${value} on`
    case 'until':
      return `until ${value}`
    case 'archived':
      return 'deleted'
    default:
      return `${name} ${value}`
  }
}

export function Filters({ wish }: { wish: Wish }) {
  const chosen = NAMES.filter((name) => wish[name])
  const isOpen = Boolean(where.value.query.filters)
  return (
    <div class="filters">
      <div class="bar">
        <button
          aria-expanded={isOpen}
          aria-controls="filters"
          onClick={() => turn({ filters: isOpen ? '' : '1' }, true)}
        >
          Filters
        </button>
        {chosen.map((name) => (
          <span class="tag" key={name}>
            {said(name, wish[name])}{' '}
            <button class="link" aria-label={`Without ${said(name, wish[name])}`} onClick={() => turn({ [name]: '' })}>
              ×
            </button>
          </span>
        ))}
        {chosen.length > 1 && (
          <button class="link" onClick={() => turn(Object.fromEntries(NAMES.map((name) => [name, ''])))}>
            Without all filters
          </button>
        )}
      </div>
      <div id="filters" hidden={!isOpen}>
        {isOpen && <Choosing wish={wish} />}
      </div>
    </div>
  )
}

function Choosing({ wish }: { wish: Wish }) {
  const namespaces = useLoaded(
    () => tool<{ namespaces: { namespace: string; count: number }[] }>('memory_list_namespaces'),
    [],
  )
  const set = (name: keyof Wish) => (event: { currentTarget: { value: string } }) =>
    turn({ [name]: event.currentTarget.value.trim() })
  return (
    <fieldset class="card bar">
      <legend>Only notes</legend>
      <label>
        in namespace{' '}
        <select value={wish.namespace} onChange={set('namespace')}>
          <option value="">any</option>
          {wish.namespace && !namespaces.value?.namespaces.some((one) => one.namespace === wish.namespace) && (
            <option>{wish.namespace}</option>
          )}
          {namespaces.value?.namespaces.map((one) => (
            <option key={one.namespace} value={one.namespace}>
              {one.namespace} ({one.count})
            </option>
          ))}
        </select>
      </label>
      <label>
        in folder <Typed value={wish.folder} take={(folder) => turn({ folder })} />
      </label>
      <label>
        tagged <Typed value={wish.tag} take={(tag) => turn({ tag: tag.replace(/^#/, '') })} />
      </label>
      <label>
        written{' '}
        <select value={wish.source} onChange={set('source')}>
          <option value="">anywhere</option>
          {Object.entries(SOURCES).map(([name, shown]) => (
            <option key={name} value={name}>
              {shown}
            </option>
          ))}
        </select>
      </label>
      <label>
        of importance{' '}
        <select value={wish.min_importance} onChange={set('min_importance')}>
          <option value="">any</option>
          {IMPORTANCE.map((least) => (
            <option key={least} value={least}>
              {least} or more
            </option>
          ))}
        </select>
      </label>
      <label>
        from <input type="date" value={wish.since} onChange={set('since')} />
      </label>
      <label>
        until <input type="date" value={wish.until} onChange={set('until')} />
      </label>
      <label>
        <input
          type="checkbox"
          checked={Boolean(wish.archived)}
          onChange={(event) => turn({ archived: event.currentTarget.checked ? 'true' : '' })}
        />{' '}
        deleted ones
      </label>
    </fieldset>
  )
}

/** What is typed stays while the page is drawn anew, until it is taken. */
function Typed({ value, take }: { value: string; take: (text: string) => void }) {
  const [text, setText] = useState(value)
  useEffect(() => setText(value), [value])
  return (
    <input
      value={text}
      placeholder="any"
      onInput={(event) => setText(event.currentTarget.value)}
      onChange={(event) => take(event.currentTarget.value.trim())}
    />
  )
}
