import { useMemo, useState } from 'preact/hooks'
import type { Schemas, ToolResult } from '../../shared/api-types'
import { number, plural } from '../../shared/format'
import { get, tool } from '../api'
import { MEMORY_CHANGES } from '../changes'
import { Await, useResource } from '../resource'
import { GraphCanvas } from '../graph-canvas'
import type { Edge, Node } from '../graph-drawing'
import { entityRef } from '../refs'
import { navigate, route, setQuery } from '../router'
import { href } from '../urls'

type NoteGraph = Schemas['Graph'] | ToolResult<'memory_neighbors'>

interface GraphData {
  nodes: Node[]
  edges: Edge[]
  isTruncated: boolean
  total?: number
}

const GRAPH_CHANGES = { ...MEMORY_CHANGES, topics: ['graph'] }
const FIRST_NODES = 500
const MAX_NODES = 2000
const MAX_DEPTH = 3

const fromNotes = (found: NoteGraph): GraphData => ({
  nodes: found.nodes.map((node) => ({
    id: node.id,
    title: node.title,
    group: 'depth' in node ? String(node.depth) : '',
  })),
  edges: found.edges.map((edge) => ({ from: edge.source_id, to: edge.target_id })),
  isTruncated: found.truncated,
})

async function load(project: string, note: string, depth: number, limit: number): Promise<GraphData> {
  if (note) return fromNotes(await tool('memory_neighbors', { id: note, depth }))
  if (!project) return fromNotes(await get('/api/notes/graph', { query: { limit } }))
  const found = await get('/api/graph/{project}', { path: { project }, query: { limit } })
  return {
    nodes: found.nodes.map((entity) => ({ id: entity.name, title: entity.name, group: entity.type })),
    edges: found.edges.map((relation) => ({ from: relation.source, to: relation.target, label: relation.type })),
    isTruncated: found.total > found.nodes.length,
    total: found.total,
  }
}

export function Graph() {
  const { project = '', note = '' } = route.value.query
  const depth = Math.min(MAX_DEPTH, Math.max(1, Number(route.value.query.depth) || 1))
  const limit = Math.min(MAX_NODES, Math.max(1, Number(route.value.query.limit) || FIRST_NODES))
  const projects = useResource(() => tool('list_projects', {}), [], GRAPH_CHANGES)
  const shown = useResource(() => load(project, note, depth, limit), [project, note, depth, limit], GRAPH_CHANGES)
  return (
    <>
      <h1>Graph</h1>
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
      <Await resource={shown}>
        {(graph) =>
          graph.nodes.length ? (
            <GraphView graph={graph} project={project} note={note} limit={limit} />
          ) : (
            <p class="empty">
              {project ? (
                'This project is empty. An agent fills it with create_entities.'
              ) : (
                <>
                  There are no notes yet. <a href="/memories/new">Write one</a> and link it with [[Title]].
                </>
              )}
            </p>
          )
        }
      </Await>
    </>
  )
}

function countLinks(edges: Edge[]): Map<string, number> {
  const counts = new Map<string, number>()
  for (const { from, to } of edges) for (const end of [from, to]) counts.set(end, (counts.get(end) ?? 0) + 1)
  return counts
}

interface Props {
  graph: GraphData
  project: string
  note: string
  limit: number
}

function GraphView({ graph: found, project, note, limit }: Props) {
  const graph = useMemo(() => found, [JSON.stringify(found)]) // an equal graph is not drawn again
  const [highlighted, setHighlighted] = useState<string | null>(null)
  const [hovered, setHovered] = useState<string | null>(null)
  const { filter: search = '' } = route.value.query
  const linkCounts = useMemo(() => countLinks(graph.edges), [graph])
  const listed = graph.nodes.filter((node) => node.title.toLowerCase().includes(search.toLowerCase()))
  const hrefOf = (id: string) =>
    project ? href(['memories', 'open'], { ref: entityRef(project, id) }) : href(['memories', 'note', id])
  const [nodes, links] = [plural(graph.nodes.length, 'node'), plural(graph.edges.length, 'link')]
  return (
    <div class="split">
      <div>
        <input
          class="wide"
          type="search"
          data-search
          aria-label="Filter the list"
          placeholder="Filter"
          value={search}
          onInput={(event) => setQuery({ filter: event.currentTarget.value }, true)}
        />
        <p class="mut" role="status">
          {nodes}
          {graph.isTruncated && graph.total ? ` of ${number(graph.total)}` : ''}, {links}
          {graph.isTruncated
            ? project
              ? '; the best connected'
              : note
                ? '; there are more'
                : '; the last written'
            : ''}
        </p>
        {graph.isTruncated &&
          !note &&
          (limit < MAX_NODES ? (
            <p>
              <button onClick={() => setQuery({ limit: String(Math.min(MAX_NODES, limit + FIRST_NODES)) }, true)}>
                Show more
              </button>
            </p>
          ) : (
            <p class="mut">
              The graph shows no more nodes.{' '}
              <a href={project ? href(['memories'], { family: 'graph' }) : '/memories'}>Search</a> finds the others.
            </p>
          ))}
        <ul class="list scrolling" aria-label="Nodes" tabIndex={0}>
          {listed.slice(0, MAX_NODES).map((node) => (
            <li
              key={node.id}
              class={node.id === hovered ? 'highlighted' : ''}
              onMouseEnter={() => setHighlighted(node.id)}
              onMouseLeave={() => setHighlighted(null)}
            >
              <a href={hrefOf(node.id)} onFocus={() => setHighlighted(node.id)} onBlur={() => setHighlighted(null)}>
                {node.title}
              </a>{' '}
              <span class="mut">{linkCounts.get(node.id) ?? 0}</span>{' '}
              {!project && node.id !== note && (
                <a class="mut" href={href(['graph'], { note: node.id })} aria-label={`Around ${node.title}`}>
                  around
                </a>
              )}
            </li>
          ))}
        </ul>
      </div>
      <GraphCanvas
        key={`${project} ${note}`}
        nodes={graph.nodes}
        edges={graph.edges}
        focus={note}
        label={`Graph of ${nodes} and ${links}; the list beside it has the same`}
        highlighted={highlighted}
        onHover={setHovered}
        onOpen={(id) => navigate(hrefOf(id))}
      />
    </div>
  )
}
