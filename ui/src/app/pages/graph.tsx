import { useMemo, useState } from 'preact/hooks'
import { number, plural } from '../../shared/format'
import { showError } from '../../shared/toast'
import { tool } from '../api'
import { MEMORY_CHANGES } from '../changes'
import { GraphCanvas } from '../graph-canvas'
import {
  colorOf,
  groupsOf,
  loadGraph,
  loadNeighbors,
  MAX_DEPTH,
  merged,
  type GraphData,
  type Node,
} from '../graph-model'
import { entityRef, noteRef } from '../refs'
import { Await, useResource } from '../resource'
import { navigate, route, setQuery } from '../router'
import { href } from '../urls'
import { GraphPanel } from './graph-panel'

const GRAPH_CHANGES = { ...MEMORY_CHANGES, topics: ['graph'] }
const FIRST_NODES = 500
const MAX_NODES = 2000
const MAX_LEGEND = 8

export function Graph() {
  const { project = '', note = '' } = route.value.query
  const depth = Math.min(MAX_DEPTH, Math.max(1, Number(route.value.query.depth) || 1))
  const limit = Math.min(MAX_NODES, Math.max(1, Number(route.value.query.limit) || FIRST_NODES))
  const keys = [project, note, depth, limit]
  const shown = useResource(() => loadGraph(project, note, depth, limit), keys, GRAPH_CHANGES)
  return (
    <>
      <div class="bar heading">
        <h1>Graph</h1>
        <GraphChoice project={project} note={note} depth={depth} />
      </div>
      <Await resource={shown}>
        {(graph) =>
          graph.nodes.length ? (
            <GraphView key={`${project} ${note}`} graph={graph} project={project} note={note} limit={limit} />
          ) : (
            <NoNodes project={project} />
          )
        }
      </Await>
    </>
  )
}

function GraphChoice({ project, note, depth }: { project: string; note: string; depth: number }) {
  const projects = useResource(() => tool('list_projects', {}), [], GRAPH_CHANGES)
  return (
    <div class="bar">
      <select
        aria-label="Graph of"
        value={project}
        onChange={(event) => navigate(href(['graph'], { project: event.currentTarget.value }))}
      >
        <option value="">notes</option>
        {projects.value?.projects.map(({ id, name }) => (
          <option key={id} value={name}>
            {name}
          </option>
        ))}
      </select>
      {note && (
        <>
          <label>
            Links away: {depth}{' '}
            <input
              type="range"
              min={1}
              max={MAX_DEPTH}
              value={depth}
              onInput={(event) => setQuery({ depth: event.currentTarget.value }, true)}
            />
          </label>
          <a class="button" href="/graph">
            All notes
          </a>
        </>
      )}
    </div>
  )
}

function NoNodes({ project }: { project: string }) {
  if (project) return <p class="empty">This project is empty. Agents fill it as they work.</p>
  return (
    <p class="empty">
      There are no notes yet. <a href="/memories/new">Write one</a> and link it with [[Title]].
    </p>
  )
}

interface Props {
  graph: GraphData
  project: string
  note: string
  limit: number
}

const contains = (node: Node, text: string) => node.title.toLowerCase().includes(text.toLowerCase())

const bestConnected = (nodes: Node[]) => [...nodes].sort((one, other) => other.degree - one.degree)

function GraphView({ graph: loaded, project, note, limit }: Props) {
  const [added, setAdded] = useState<GraphData | null>(null)
  const [hidden, setHidden] = useState<string[]>([]) // groups
  const [highlighted, setHighlighted] = useState<string | null>(null)
  const [hovered, setHovered] = useState<string | null>(null)
  const { filter: search = '', chosen = '' } = route.value.query
  const all = useMemo(() => (added ? merged(loaded, added) : loaded), [JSON.stringify(loaded), added])
  const shown = useMemo(() => all.nodes.filter((node) => !hidden.includes(node.group)), [all, hidden])
  const listed = useMemo(() => bestConnected(shown.filter((node) => contains(node, search))), [shown, search])
  const selected = all.nodes.find((node) => node.id === chosen)
  const isListed = selected && listed.includes(selected)
  const found = (search && !isListed ? listed[0]?.id : selected?.id) ?? null
  const choose = (id: string) => setQuery({ chosen: id }, true)
  const expand = async (id: string) => {
    try {
      const more = await loadNeighbors(project, id, new Set(all.nodes.map((node) => node.id)))
      setAdded((before) => (before ? merged(before, more) : more))
    } catch (error) {
      showError(error)
    }
  }
  const [nodes, links] = [plural(shown.length, 'node'), plural(all.edges.length, 'link')]
  return (
    <div class="split graph">
      <div>
        <GraphSearch search={search} first={listed[0]?.id} onChoose={choose} />
        <p class="mut" role="status">
          {nodes}
          {all.isTruncated && all.total ? ` of ${number(all.total)}` : ''}, {links}
          {all.isTruncated && (note ? '; the nearest' : '; the best connected')}
        </p>
        {all.isTruncated && !note && <More project={project} limit={limit} />}
        {selected && (
          <GraphPanel
            key={selected.id}
            reference={project ? entityRef(project, selected.id) : noteRef(selected.id)}
            node={selected}
            onExpand={() => expand(selected.id)}
            onClose={() => choose('')}
          />
        )}
        <NodeList
          nodes={listed}
          chosen={chosen}
          hasAround={(id) => !project && id !== note}
          hovered={hovered}
          onHighlight={setHighlighted}
        />
      </div>
      <div>
        <GraphCanvas
          nodes={shown}
          edges={all.edges}
          label={`Graph of ${nodes} and ${links}; the list beside it has the same`}
          highlighted={highlighted ?? hovered ?? found}
          found={found}
          onHover={setHovered}
          onChoose={choose}
        />
        <Legend nodes={all.nodes} hidden={hidden} setHidden={setHidden} />
      </div>
    </div>
  )
}

interface SearchProps {
  search: string
  first: string | undefined
  onChoose: (id: string) => void
}

/** Typing moves the picture to the first match; Enter shows it. */
function GraphSearch({ search, first, onChoose }: SearchProps) {
  const submit = (event: Event) => {
    event.preventDefault()
    if (first) onChoose(first)
  }
  return (
    <form role="search" onSubmit={submit}>
      <input
        class="wide"
        type="search"
        data-search
        aria-label="Find in the graph"
        placeholder="Find"
        value={search}
        onInput={(event) => setQuery({ filter: event.currentTarget.value }, true)}
      />
    </form>
  )
}

function More({ project, limit }: { project: string; limit: number }) {
  if (limit < MAX_NODES)
    return (
      <p>
        <button onClick={() => setQuery({ limit: String(Math.min(MAX_NODES, limit + FIRST_NODES)) }, true)}>
          Show more
        </button>
      </p>
    )
  return (
    <p class="mut">
      The graph shows no more nodes.{' '}
      <a href={project ? href(['memories'], { family: 'graph' }) : '/memories'}>Search</a> finds the others.
    </p>
  )
}

interface NodeListProps {
  nodes: Node[]
  chosen: string
  hasAround: (id: string) => boolean
  hovered: string | null
  onHighlight: (id: string | null) => void
}

/** A press moves the picture to a node and shows its panel. */
function NodeList({ nodes, chosen, hasAround, hovered, onHighlight }: NodeListProps) {
  return (
    <ul class="list scrolling" aria-label="Nodes" tabIndex={0}>
      {nodes.slice(0, MAX_NODES).map((node) => (
        <li
          key={node.id}
          class={node.id === hovered ? 'highlighted' : ''}
          onMouseEnter={() => onHighlight(node.id)}
          onMouseLeave={() => onHighlight(null)}
        >
          <a
            href={href(['graph'], { ...route.value.query, chosen: node.id })}
            aria-current={node.id === chosen ? 'true' : undefined}
            onFocus={() => onHighlight(node.id)}
            onBlur={() => onHighlight(null)}
          >
            {node.title}
          </a>{' '}
          <span class="mut" title={plural(node.degree, 'link')}>
            {number(node.degree)}
          </span>{' '}
          {hasAround(node.id) && (
            <a class="mut" href={href(['graph'], { note: node.id })} aria-label={`Around ${node.title}`}>
              around
            </a>
          )}
        </li>
      ))}
    </ul>
  )
}

interface LegendProps {
  nodes: Node[]
  hidden: string[]
  setHidden: (groups: string[]) => void
}

/** The groups with their colors; a press hides one or shows it again. */
function Legend({ nodes, hidden, setHidden }: LegendProps) {
  const groups = groupsOf(nodes)
  const toggle = (group: string) =>
    setHidden(hidden.includes(group) ? hidden.filter((name) => name !== group) : [...hidden, group])
  return (
    <div class="bar legend" role="group" aria-label="Legend">
      {groups.slice(0, MAX_LEGEND).map(([group, count]) => (
        <button key={group} aria-pressed={!hidden.includes(group)} onClick={() => toggle(group)}>
          <span style={{ background: `var(${colorOf(nodes, group)})` }} /> {group || 'without a type'} {number(count)}
        </button>
      ))}
      {groups.length > MAX_LEGEND && <span class="mut">and {number(groups.length - MAX_LEGEND)} more</span>}
    </div>
  )
}
