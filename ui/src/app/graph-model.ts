// Nodes and edges of a graph, from notes or from a project.
import type { Relation, Schemas, ToolResult } from '../shared/api-types'
import { get, tool } from './api'
import { entityRef } from './refs'

export interface Node {
  id: string
  title: string
  group: string // its type, or the namespace of a note
  degree: number // how many links it has, also to nodes that are not shown
}

export interface Edge {
  from: string
  to: string
  label?: string
}

export interface GraphData {
  nodes: Node[]
  edges: Edge[]
  isTruncated: boolean
  total?: number
}

export const MAX_DEPTH = 3
const MAX_ADDED = 200 // neighbors at once
const ENTITIES_PER_REQUEST = 50
const COLORS = ['--accent', '--ok', '--warn', '--num', '--bad', '--graph-6', '--graph-7', '--graph-8']

/** The groups by their number of nodes. */
export function groupsOf(nodes: Node[]): [group: string, count: number][] {
  const counts = new Map<string, number>()
  for (const { group } of nodes) counts.set(group, (counts.get(group) ?? 0) + 1)
  return [...counts].sort(([name, count], [other, otherCount]) => otherCount - count || name.localeCompare(other))
}

/** The name of the CSS color of a group; the first groups have colors of their own. */
export function colorOf(nodes: Node[], group: string): string {
  const position = groupsOf(nodes).findIndex(([name]) => name === group)
  return COLORS[Math.min(position, COLORS.length - 1)] ?? COLORS[0]!
}

function countLinks(edges: { source_id: string; target_id: string }[]): Map<string, number> {
  const counts = new Map<string, number>()
  for (const { source_id, target_id } of edges)
    for (const end of [source_id, target_id]) counts.set(end, (counts.get(end) ?? 0) + 1)
  return counts
}

function fromNeighbors(found: ToolResult<'memory_neighbors'>): GraphData {
  const counts = countLinks(found.edges)
  return {
    nodes: found.nodes.map(({ id, title, depth }) => ({
      id,
      title,
      group: depth === 0 ? 'this note' : `${depth} away`,
      degree: counts.get(id) ?? 0,
    })),
    edges: found.edges.map((edge) => ({ from: edge.source_id, to: edge.target_id })),
    isTruncated: found.truncated,
  }
}

const fromNotes = (found: Schemas['NotesGraph']): GraphData => ({
  nodes: found.nodes.map(({ id, title, namespace, degree }) => ({ id, title, group: namespace, degree })),
  edges: found.edges.map((edge) => ({ from: edge.source_id, to: edge.target_id })),
  isTruncated: found.truncated,
})

export async function loadGraph(project: string, note: string, depth: number, limit: number): Promise<GraphData> {
  if (note) return fromNeighbors(await tool('memory_neighbors', { id: note, depth }))
  if (!project) return fromNotes(await get('/api/notes/graph', { query: { limit } }))
  const found = await get('/api/graph/{project}', { path: { project }, query: { limit } })
  return {
    nodes: found.nodes.map(({ name, type, degree }) => ({ id: name, title: name, group: type, degree })),
    edges: found.edges.map((relation) => ({ from: relation.source, to: relation.target, label: relation.type })),
    isTruncated: found.total > found.nodes.length,
    total: found.total,
  }
}

/** The neighbors of a node that are not known yet, at most MAX_ADDED of them, and its links. */
export async function loadNeighbors(project: string, id: string, known: ReadonlySet<string>): Promise<GraphData> {
  if (!project) {
    const around = fromNeighbors(await tool('memory_neighbors', { id, depth: 1 }))
    return { ...around, nodes: around.nodes.map((node) => ({ ...node, group: 'added' })) }
  }
  const { relations } = (await get('/api/open', { query: { ref: entityRef(project, id) } })) as {
    relations: Relation[]
  }
  const names = [...new Set(relations.flatMap(({ from, to }) => [from, to]))].filter((name) => !known.has(name))
  const nodes: Node[] = []
  for (let start = 0; start < Math.min(names.length, MAX_ADDED); start += ENTITIES_PER_REQUEST) {
    const some = names.slice(start, start + ENTITIES_PER_REQUEST)
    const found = await tool('open_nodes', { project, names: some })
    const degree = (name: string) => found.relations.filter(({ from, to }) => from === name || to === name).length
    const entityNode = ({ name, entity_type }: { name: string; entity_type: string }): Node => ({
      id: name,
      title: name,
      group: entity_type,
      degree: degree(name),
    })
    nodes.push(...found.entities.map(entityNode))
  }
  const edges = relations.map(({ from, to, relation_type }) => ({ from, to, label: relation_type }))
  return { nodes, edges, isTruncated: false }
}

/** Both together; what the first has stays. */
export function merged(graph: GraphData, added: GraphData): GraphData {
  const known = new Set(graph.nodes.map(({ id }) => id))
  const edgeKey = ({ from, to, label = '' }: Edge) => JSON.stringify([from, to, label])
  const knownEdges = new Set(graph.edges.map(edgeKey))
  return {
    ...graph,
    nodes: [...graph.nodes, ...added.nodes.filter(({ id }) => !known.has(id))],
    edges: [...graph.edges, ...added.edges.filter((edge) => !knownEdges.has(edgeKey(edge)))],
  }
}
