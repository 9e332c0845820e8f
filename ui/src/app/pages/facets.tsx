// Beside the list: how many memories there are of each kind, to choose from, and further filters.
import type { ComponentChildren } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import type { Schemas } from '../../shared/api-types'
import { number, plural } from '../../shared/format'
import { FAMILIES, familyLabel } from '../families'
import { describeFilter, FILTER_NAMES, SOURCES, type FilterName, type NoteFilters } from '../note-filters'
import { route, setQuery } from '../router'
import { href } from '../urls'

const IMPORTANCE = ['0.3', '0.5', '0.7', '0.9']
const FIRST_CHOICES = 7

/** The address of the list with other choices, from its first page. */
const chosenHref = (query: Record<string, string | undefined>) =>
  href(['memories'], { ...route.value.query, page: undefined, ...query })

export const choose = (query: Record<string, string>) => setQuery({ ...query, page: '' })

export function ChosenFilters({ filters }: { filters: NoteFilters }) {
  const chosen = FILTER_NAMES.filter((name) => filters[name])
  if (!chosen.length) return null
  return (
    <div class="bar chosen">
      {chosen.map((name) => (
        <span class="tag" key={name}>
          {describeFilter(name, filters[name])}{' '}
          <button
            class="link"
            aria-label={`Remove the filter ${describeFilter(name, filters[name])}`}
            onClick={() => choose({ [name]: '' })}
          >
            ×
          </button>
        </span>
      ))}
      {chosen.length > 1 && (
        <button class="link" onClick={() => choose(Object.fromEntries(FILTER_NAMES.map((name) => [name, ''])))}>
          Clear all filters
        </button>
      )}
    </div>
  )
}

interface Props {
  filters: NoteFilters
  family: string
  families: Record<string, number | undefined>
  facets: Schemas['FacetsShown'] | undefined
  hits?: number // these alone are counted
}

export function Facets({ filters, family, families, facets, hits }: Props) {
  const isOpen = Boolean(route.value.query.filters)
  return (
    <aside class="facets" aria-label="Filters">
      <button
        class="narrow"
        aria-expanded={isOpen}
        aria-controls="facets"
        onClick={() => setQuery({ filters: isOpen ? '' : '1' }, true)}
      >
        Filters
      </button>
      <div id="facets" class={isOpen ? 'open' : ''}>
        {hits !== undefined && <p class="mut">Among the {plural(hits, 'memory', 'memories')} found:</p>}
        <FamilyFacet family={family} families={families} />
        <Facet title="Namespace" name="namespace" counts={facets?.namespaces} chosen={filters.namespace} />
        <Facet title="Tag" name="tag" counts={facets?.tags} chosen={filters.tag} prefix="#" />
        <Facet title="Client" name="client" counts={facets?.clients} chosen={filters.client} />
        <Facet title="Origin" name="source" counts={facets?.sources} chosen={filters.source} labels={SOURCES} />
        <FurtherFilters filters={filters} />
        <datalist id="namespaces">
          {Object.keys(facets?.namespaces ?? {}).map((name) => (
            <option key={name} value={name} />
          ))}
        </datalist>
      </div>
    </aside>
  )
}

function FamilyFacet({ family, families }: Pick<Props, 'family' | 'families'>) {
  const notesOnly = Object.fromEntries(FILTER_NAMES.map((name) => [name, undefined]))
  return (
    <FacetSection title="Kind">
      <Choice label="All" isChosen={!family} address={chosenHref({ family: undefined })} />
      {FAMILIES.map((name) => (
        <Choice
          key={name}
          label={familyLabel(name)}
          count={families[name]}
          isChosen={family === name}
          address={chosenHref({ ...(name === 'notes' ? {} : notesOnly), family: name })}
        />
      ))}
    </FacetSection>
  )
}

interface FacetProps {
  title: string
  name: FilterName
  counts: Record<string, number> | undefined
  chosen: string
  prefix?: string
  labels?: Record<string, string>
}

function Facet({ title, name, counts, chosen, prefix = '', labels = {} }: FacetProps) {
  const [showsAll, setShowsAll] = useState(false)
  const known = Object.entries(counts ?? {})
  const missing: [string, number | undefined][] = chosen && !counts?.[chosen] ? [[chosen, undefined]] : []
  const choices = [...missing, ...known]
  if (!choices.length) return null
  const shown = showsAll ? choices : choices.filter(([value], position) => position < FIRST_CHOICES || value === chosen)
  return (
    <FacetSection title={title}>
      {shown.map(([value, count]) => (
        <Choice
          key={value}
          label={prefix + (labels[value] ?? value)}
          count={count}
          isChosen={value === chosen}
          address={chosenHref({ [name]: value === chosen ? undefined : value })}
        />
      ))}
      {shown.length < choices.length && (
        <li>
          <button class="link" aria-label={`All choices of ${title}`} onClick={() => setShowsAll(true)}>
            {choices.length - shown.length} more
          </button>
        </li>
      )}
    </FacetSection>
  )
}

function FacetSection({ title, children }: { title: string; children: ComponentChildren }) {
  const id = `facet-${title.toLowerCase()}`
  return (
    <section aria-labelledby={id}>
      <h2 id={id}>{title}</h2>
      <ul class="list">{children}</ul>
    </section>
  )
}

interface ChoiceProps {
  label: string
  count?: number
  isChosen: boolean
  address: string
}

function Choice({ label, count, isChosen, address }: ChoiceProps) {
  return (
    <li>
      <a class="facet" href={address} aria-current={isChosen ? 'true' : undefined}>
        <span>{label}</span> {count !== undefined && <span class="mut num">{number(count)}</span>}
      </a>
    </li>
  )
}

function FurtherFilters({ filters }: { filters: NoteFilters }) {
  const set = (name: FilterName) => (event: { currentTarget: { value: string } }) =>
    choose({ [name]: event.currentTarget.value.trim() })
  const [isOpen, setOpen] = useState(false)
  const isUsed = ['folder', 'min_importance', 'since', 'until', 'archived'].some((name) => filters[name as FilterName])
  return (
    <details open={isUsed || isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>More filters</summary>
      <label>
        in folder <TextFilter value={filters.folder} onSubmit={(folder) => choose({ folder })} />
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
          onChange={(event) => choose({ archived: event.currentTarget.checked ? 'true' : '' })}
        />{' '}
        archived notes
      </label>
    </details>
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
