import { useEffect, useState } from 'preact/hooks'
import { tool } from '../api'
import { describeFilter, FILTER_NAMES, SOURCES, type FilterName, type NoteFilters } from '../note-filters'
import { useResource } from '../resource'
import { route, setQuery } from '../router'

const IMPORTANCE = ['0.3', '0.5', '0.7', '0.9']

export function Filters({ filters }: { filters: NoteFilters }) {
  const chosen = FILTER_NAMES.filter((name) => filters[name])
  const isOpen = Boolean(route.value.query.filters)
  return (
    <div class="filters">
      <div class="bar">
        <button
          aria-expanded={isOpen}
          aria-controls="filters"
          onClick={() => setQuery({ filters: isOpen ? '' : '1' }, true)}
        >
          Filters
        </button>
        {chosen.map((name) => (
          <span class="tag" key={name}>
            {describeFilter(name, filters[name])}{' '}
            <button
              class="link"
              aria-label={`Remove the filter ${describeFilter(name, filters[name])}`}
              onClick={() => setQuery({ [name]: '' })}
            >
              ×
            </button>
          </span>
        ))}
        {chosen.length > 1 && (
          <button class="link" onClick={() => setQuery(Object.fromEntries(FILTER_NAMES.map((name) => [name, ''])))}>
            Clear all filters
          </button>
        )}
      </div>
      <div id="filters" hidden={!isOpen}>
        {isOpen && <FilterForm filters={filters} />}
      </div>
    </div>
  )
}

function FilterForm({ filters }: { filters: NoteFilters }) {
  const namespaces = useResource(() => tool('memory_list_namespaces', {}), [])
  const set = (name: FilterName) => (event: { currentTarget: { value: string } }) =>
    setQuery({ [name]: event.currentTarget.value.trim() })
  return (
    <fieldset class="card bar">
      <legend>Only notes</legend>
      <label>
        in namespace{' '}
        <select value={filters.namespace} onChange={set('namespace')}>
          <option value="">any</option>
          {filters.namespace && !namespaces.value?.namespaces.some((item) => item.namespace === filters.namespace) && (
            <option>{filters.namespace}</option>
          )}
          {namespaces.value?.namespaces.map((item) => (
            <option key={item.namespace} value={item.namespace}>
              {item.namespace} ({item.count})
            </option>
          ))}
        </select>
      </label>
      <label>
        in folder <TextFilter value={filters.folder} onSubmit={(folder) => setQuery({ folder })} />
      </label>
      <label>
        tagged <TextFilter value={filters.tag} onSubmit={(tag) => setQuery({ tag: tag.replace(/^#/, '') })} />
      </label>
      <label>
        written{' '}
        <select value={filters.source} onChange={set('source')}>
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
        <select value={filters.min_importance} onChange={set('min_importance')}>
          <option value="">any</option>
          {IMPORTANCE.map((minimum) => (
            <option key={minimum} value={minimum}>
              {minimum} or more
            </option>
          ))}
        </select>
      </label>
      <label>
        from <input type="date" value={filters.since} onChange={set('since')} />
      </label>
      <label>
        until <input type="date" value={filters.until} onChange={set('until')} />
      </label>
      <label>
        <input
          type="checkbox"
          checked={Boolean(filters.archived)}
          onChange={(event) => setQuery({ archived: event.currentTarget.checked ? 'true' : '' })}
        />{' '}
        deleted ones
      </label>
    </fieldset>
  )
}

/** Keeps the text while the page renders again, until it is submitted. */
function TextFilter({ value, onSubmit }: { value: string; onSubmit: (text: string) => void }) {
  const [text, setText] = useState(value)
  useEffect(() => setText(value), [value])
  return (
    <input
      value={text}
      placeholder="any"
      onInput={(event) => setText(event.currentTarget.value)}
      onChange={(event) => onSubmit(event.currentTarget.value.trim())}
    />
  )
}
