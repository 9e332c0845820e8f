import { useMemo, useState } from 'preact/hooks'
import { number, plural } from '../../shared/words'
import { get, tool } from '../api'
import { MEMORIES } from '../live'
import { Awaited, useLoaded } from '../loading'
import { Picture, type Edge, type Node } from '../picture'
import { go, to, turn, where } from '../router'

interface Notes {
  nodes: { id: string; title: string; depth?: number }[]
  edges: { source_id: string; target_id: string }[]
  truncated: boolean
}

interface Project {
  id: string
  name: string
}

interface Shown {
  nodes: Node[]
  edges: Edge[]
  isCut: boolean
  total?: number
}

interface Drawn {
  nodes: { name: string; type: string }[]
  edges: { source: string; target: string; type: string }[]
  total: number
}

const DRAWN = { ...MEMORIES, topics: ['graph'] }
const AT_FIRST = 500 // nodes
const MOST = 2000 // that a picture takes; beyond, look around one note or filter

const fromNotes = (found: Notes): Shown => ({
  nodes: found.nodes.map((node) => ({ id: node.id, title: node.title, group: String(node.depth ?? 0) })),
  edges: found.edges.map((edge) => ({ from: edge.source_id, to: edge.target_id })),
  isCut: found.truncated,
})

async function load(project: string, note: string, depth: number, most: number): Promise<Shown> {
  if (note) return fromNotes(await tool<Notes>('memory_neighbors', { id: note, depth }))
  if (!project) return fromNotes(await get<Notes>(`/api/notes/graph?limit=${most}`))
  const found = await get<Drawn>(`/api/graph/${encodeURIComponent(project)}?limit=${most}`)
  return {
    nodes: found.nodes.map((entity) => ({ id: entity.name, title: entity.name, group: entity.type })),
    edges: found.edges.map((relation) => ({ from: relation.source, to: relation.target, label: relation.type })),
    isCut: found.total > found.nodes.length,
    total: found.total,
  }
}

export function Graph() {
  const { project = '', note = '' } = where.value.query
  const depth = Math.min(3, Math.max(1, Number(where.value.query.depth) || 1))
  const most = Math.min(MOST, Math.max(1, Number(where.value.query.most) || AT_FIRST))
  const projects = useLoaded(() => tool<{ projects: Project[] }>('list_projects', {}), [], DRAWN)
  const shown = useLoaded(() => load(project, note, depth, most), [project, note, depth, most], DRAWN)
  return (
    <>
      <h1>Graph</h1>
      <div class="bar">
        <select
          aria-label="Graph of"
          value={project}
          onChange={(event) => go(to(['graph'], { project: event.currentTarget.value }))}
        >
          <option value="">notes</option>
          {projects.value?.projects.map((one) => (
            <option key={one.id} value={one.name}>
              {one.name}
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
                max={3}
                value={depth}
                onInput={(event) => turn({ depth: event.currentTarget.value }, true)}
              />
            </label>
            <a class="button" href="/graph">
              All notes
            </a>
          </>
        )}
      </div>
      <Awaited of={shown}>
        {(graph) =>
          graph.nodes.length ? (
            <Seen graph={graph} project={project} note={note} most={most} />
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
      </Awaited>
    </>
  )
}

function Seen({ graph: found, project, note, most }: { graph: Shown; project: string; note: string; most: number }) {
  const graph = useMemo(() => found, [JSON.stringify(found)]) // what did not change is not drawn anew
  const [lit, setLit] = useState<string | null>(null)
  const [hovered, setHovered] = useState<string | null>(null)
  const { filter: search = '' } = where.value.query
  const around = useMemo(() => {
    const found = new Map<string, number>()
    for (const { from, to } of graph.edges) for (const end of [from, to]) found.set(end, (found.get(end) ?? 0) + 1)
    return found
  }, [graph])
  const listed = graph.nodes.filter((node) => node.title.toLowerCase().includes(search.toLowerCase()))
  const address = (id: string) =>
    project
      ? to(['memories', 'open'], { ref: `graph:${encodeURIComponent(project)}/${encodeURIComponent(id)}` })
      : to(['memories', 'note', id])
  const label = `Graph of ${plural(graph.nodes.length, 'node')} and ${plural(graph.edges.length, 'link')}; the list beside it has the same`
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
          onInput={(event) => turn({ filter: event.currentTarget.value }, true)}
        />
        <p class="mut" role="status">
          {plural(graph.nodes.length, 'node')}
          {graph.isCut && graph.total ? ` of ${number(graph.total)}` : ''}, {plural(graph.edges.length, 'link')}
          {graph.isCut ? (project ? '; the best connected' : note ? '; there are more' : '; the last written') : ''}
        </p>
        {graph.isCut &&
          !note &&
          (most < MOST ? (
            <p>
              <button onClick={() => turn({ most: String(Math.min(MOST, most + AT_FIRST)) }, true)}>Show more</button>
            </p>
          ) : (
            <p class="mut">
              A picture takes no more.{' '}
              <a href={project ? to(['memories'], { family: 'graph' }) : '/memories'}>Search</a> finds the others.
            </p>
          ))}
        <ul class="list scrolling" aria-label="Nodes" tabIndex={0}>
          {listed.slice(0, MOST).map((node) => (
            <li
              key={node.id}
              class={node.id === hovered ? 'lit' : ''}
              onMouseEnter={() => setLit(node.id)}
              onMouseLeave={() => setLit(null)}
            >
              <a href={address(node.id)} onFocus={() => setLit(node.id)} onBlur={() => setLit(null)}>
                {node.title}
              </a>{' '}
              <span class="mut">{around.get(node.id) ?? 0}</span>{' '}
              {!project && node.id !== note && (
                <a class="mut" href={to(['graph'], { note: node.id })} aria-label={`Around ${node.title}`}>
                  around
                </a>
              )}
            </li>
          ))}
        </ul>
      </div>
      <Picture
        key={`${project} ${note}`}
        nodes={graph.nodes}
        edges={graph.edges}
        focus={note}
        label={label}
        lit={lit}
        onHover={setHovered}
        onOpen={(id) => go(address(id))}
      />
    </div>
  )
}
