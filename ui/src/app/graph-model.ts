// Nodes and edges of a graph, from notes or from a project.
import type { Schemas } from '../shared/api-types'
import { get } from './api'

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
const MAX_NEIGHBORS = 2000
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

function fromNotes(found: Schemas['NotesGraph'], groupOf: (node: Schemas['GraphNode']) => string): GraphData {
  return {
    nodes: found.nodes.map((node) => ({ id: node.id, title: node.title, group: groupOf(node), degree: node.degree })),
    edges: found.edges.map((edge) => ({ from: edge.source_id, to: edge.target_id })),
    isTruncated: found.total > found.nodes.length,
    total: found.total,
  }
}

const fromProject = (found: Schemas['ProjectDrawn']): GraphData => ({
  nodes: found.nodes.map(({ name, type, degree }) => ({ id: name, title: name, group: type, degree })),
  edges: found.edges.map((relation) => ({ from: relation.source, to: relation.target, label: relation.type })),
  isTruncated: found.total > found.nodes.length,
  total: found.total,
})

const distance = ({ depth }: { depth: number }) => (depth === 0 ? 'this note' : `${depth} away`)

export async function loadGraph(project: string, note: string, depth: number, limit: number): Promise<GraphData> {
  if (note) return fromNotes(await get('/api/notes/graph', { query: { limit, around: note, depth } }), distance)
  if (!project) return fromNotes(await get('/api/notes/graph', { query: { limit } }), (node) => node.namespace)
  return fromProject(await get('/api/graph/{project}', { path: { project }, query: { limit } }))
}

/** The neighbors of a node that are not known yet, at most MAX_ADDED of them, the best connected first, and the links
 *  among all its neighbors. */
export async function loadNeighbors(project: string, id: string, known: ReadonlySet<string>): Promise<GraphData> {
  const query = { limit: MAX_NEIGHBORS, around: id }
  const found = project
    ? fromProject(await get('/api/graph/{project}', { path: { project }, query }))
    : fromNotes(await get('/api/notes/graph', { query }), (node) => node.namespace)
  const nodes = found.nodes.filter((node) => !known.has(node.id)).slice(0, MAX_ADDED)
  const shown = new Set([...known, ...nodes.map((node) => node.id)])
  return { ...found, nodes, edges: found.edges.filter(({ from, to }) => shown.has(from) && shown.has(to)) }
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
