// The picture of a graph: force-graph lays it out and draws it. See docs/decisions/0025-force-graph.md.
import ForceGraph, { type LinkObject, type NodeObject } from 'force-graph'
import { shown } from '../shared/invisible'
import { colorOf, groupsOf, type Edge, type Node } from './graph-model'

interface Placed extends NodeObject {
  node: Node
}

interface Box {
  left: number
  right: number
  top: number
  bottom: number
}

interface Link extends LinkObject<Placed> {
  source: string | Placed
  target: string | Placed
  label: string
}

/** What is set of a force of the layout, which d3-force does not declare here. */
type Force = { distance?: (value: number) => void; strength?: (value: number) => void } | undefined

export interface PictureOptions {
  onHover: (id: string | null) => void
  onChoose: (id: string) => void
}

const LAYOUT_TICKS = 150
const MAX_LABELED_NODES = 60
const MIN_EDGE_LABEL_ZOOM = 1
const MAX_ROOMY_NODES = 15
const [PLAIN_DISTANCE, ROOMY_DISTANCE] = [30, 90] // of two linked nodes
const [PLAIN_CHARGE, ROOMY_CHARGE] = [-30, -120] // how strongly nodes repel each other
const FIT_MARGIN_PX = 40
const MOVE_MS = 400
const FOUND_ZOOM = 2.5
const MAX_FIT_ZOOM = 2

const overlap = (one: Box, other: Box) =>
  one.left < other.right && other.left < one.right && one.top < other.bottom && other.top < one.bottom
const endOf = (end: string | Placed) => (typeof end === 'string' ? end : end.node.id)

export class GraphPicture {
  private readonly graph: ForceGraph<Placed, Link>
  private readonly observer = new ResizeObserver(() => this.resize())
  private readonly isStill = matchMedia('(prefers-reduced-motion: reduce)').matches
  private placed = new Map<string, Placed>()
  private neighbors = new Map<string, Set<string>>()
  private isFitted = true // until the user zooms or pans
  private isUnfitted = true // the size or a place changed since
  private highlighted: string | null = null
  private labels: Box[] = [] // of this frame
  private colors: Record<string, string> = {}
  private readonly textColors

  constructor(
    private readonly element: HTMLElement,
    options: PictureOptions,
  ) {
    this.textColors = { plain: this.css('--fg'), quiet: this.css('--mut') }
    this.graph = new ForceGraph<Placed, Link>(element)
      .nodeLabel(() => '') // the library would show it as HTML
      .linkLabel(() => '')
      .nodeRelSize(4)
      .nodeVal(({ node }) => 1 + node.degree / 4)
      .nodeColor((item) => this.dimmed(this.colors[item.node.group]!, !this.isNear(item.node.id)))
      .nodeCanvasObjectMode(() => 'after')
      .nodeCanvasObject((item, context, zoom) => this.drawLabel(item, context, zoom))
      .linkColor((link) => this.dimmed(this.textColors.quiet, !this.touches(link)))
      .linkDirectionalArrowLength(5)
      .linkDirectionalArrowRelPos(1)
      .linkCanvasObjectMode(() => 'after')
      .linkCanvasObject((link, context, zoom) => this.drawEdgeLabel(link, context, zoom))
      .onNodeHover((item) => options.onHover(item?.node.id ?? null))
      .onNodeClick((item) => options.onChoose(item.node.id))
      .onEngineTick(() => (this.isUnfitted = true))
      .onRenderFramePre(() => (this.labels = []))
      .onRenderFramePost(() => this.fitAgain())
    if (this.isStill) this.graph.warmupTicks(LAYOUT_TICKS).cooldownTicks(0)
    else this.graph.cooldownTicks(LAYOUT_TICKS)
    for (const event of ['wheel', 'pointerdown']) element.addEventListener(event, () => (this.isFitted = false))
    this.observer.observe(element)
    this.resize()
  }

  /** Nodes that were there keep their places. The best connected come first, and so do their labels. */
  show(nodes: Node[], edges: Edge[]): void {
    this.colors = Object.fromEntries(groupsOf(nodes).map(([group]) => [group, this.css(colorOf(nodes, group))]))
    this.placed = new Map(
      [...nodes]
        .sort((one, other) => other.degree - one.degree)
        .map((node) => [node.id, { ...this.placed.get(node.id), id: node.id, node } satisfies Placed]),
    )
    const links = edges
      .filter(({ from, to }) => this.placed.has(from) && this.placed.has(to))
      .map(({ from, to, label = '' }): Link => ({ source: from, target: to, label }))
    this.neighbors = new Map(nodes.map(({ id }) => [id, new Set([id])]))
    for (const { source, target } of links) {
      this.neighbors.get(endOf(source))!.add(endOf(target))
      this.neighbors.get(endOf(target))!.add(endOf(source))
    }
    this.isUnfitted = true
    this.spread(nodes.length)
    this.graph.graphData({ nodes: [...this.placed.values()], links })
  }

  /** Few nodes are spread, so that their names and relations can be read. */
  private spread(count: number): void {
    const isRoomy = count <= MAX_ROOMY_NODES
    const [links, charge] = ['link', 'charge'].map((name) => this.graph.d3Force(name) as unknown as Force)
    links?.distance?.(isRoomy ? ROOMY_DISTANCE : PLAIN_DISTANCE)
    charge?.strength?.(isRoomy ? ROOMY_CHARGE : PLAIN_CHARGE)
  }

  /** Show a node and its neighbors; null shows all alike. */
  highlight(id: string | null): void {
    this.highlighted = id
    this.graph.nodeRelSize(4) // draws again
  }

  moveTo(id: string): void {
    const { x, y } = this.placed.get(id) ?? {}
    if (x === undefined || y === undefined) return
    this.isFitted = false
    const duration = this.isStill ? 0 : MOVE_MS
    this.graph.centerAt(x, y, duration).zoom(FOUND_ZOOM, duration)
  }

  zoomBy(factor: number): void {
    this.isFitted = false
    this.graph.zoom(this.graph.zoom() * factor, this.isStill ? 0 : MOVE_MS)
  }

  fit(): void {
    this.isFitted = true
    if (!this.hasPlaces()) return
    this.graph.zoomToFit(0, FIT_MARGIN_PX)
    if (this.graph.zoom() > MAX_FIT_ZOOM) this.graph.zoom(MAX_FIT_ZOOM)
  }

  destroy(): void {
    this.observer.disconnect()
    this.graph._destructor()
  }

  private resize(): void {
    this.graph.width(this.element.clientWidth).height(this.element.clientHeight)
    this.isUnfitted = true
  }

  private hasPlaces(): boolean {
    const box = this.graph.getGraphBbox() as ReturnType<typeof this.graph.getGraphBbox> | null // null without nodes
    return box !== null && Number.isFinite(box.x[0])
  }

  /** The library changes sizes and places while it draws, and restores the former scale after a frame. */
  private fitAgain(): void {
    if (!this.isFitted || !this.isUnfitted || !this.hasPlaces()) return
    this.isUnfitted = false
    queueMicrotask(() => this.fit())
  }

  private isNear(id: string): boolean {
    return this.highlighted === null || Boolean(this.neighbors.get(this.highlighted)?.has(id))
  }

  private touches({ source, target }: Link): boolean {
    return this.highlighted === null || [endOf(source), endOf(target)].includes(this.highlighted)
  }

  private drawLabel({ node, x = 0, y = 0 }: Placed, context: CanvasRenderingContext2D, zoom: number): void {
    const isNamed = this.highlighted !== null && this.isNear(node.id)
    if (!isNamed && this.placed.size > MAX_LABELED_NODES && node.degree * zoom <= 8) return
    const radius = 4 * Math.sqrt(1 + node.degree / 4)
    context.font = `${12 / zoom}px system-ui, sans-serif`
    context.textAlign = 'center'
    const text = shown(node.title.slice(0, 40))
    const [half, top] = [context.measureText(text).width / 2, y + radius]
    const box = { left: x - half, right: x + half, top, bottom: top + 15 / zoom }
    if (!isNamed && this.labels.some((other) => overlap(box, other))) return // zooming in shows it
    this.labels.push(box)
    context.fillStyle = this.dimmed(this.textColors.plain, !this.isNear(node.id))
    context.fillText(text, x, y + radius + 12 / zoom)
  }

  private drawEdgeLabel(link: Link, context: CanvasRenderingContext2D, zoom: number): void {
    const { source, target, label } = link
    if (!label || typeof source === 'string' || typeof target === 'string') return
    const isNamed = this.highlighted !== null && this.touches(link)
    const isRoomy = zoom >= MIN_EDGE_LABEL_ZOOM && this.placed.size <= MAX_LABELED_NODES
    if (!isNamed && !isRoomy) return
    context.font = `${10 / zoom}px system-ui, sans-serif`
    context.textAlign = 'center'
    context.fillStyle = this.textColors.quiet
    context.fillText(shown(label), ((source.x ?? 0) + (target.x ?? 0)) / 2, ((source.y ?? 0) + (target.y ?? 0)) / 2)
  }

  private dimmed(color: string, isDimmed: boolean): string {
    return isDimmed ? `color-mix(in srgb, ${color} 20%, transparent)` : color
  }

  private css(name: string): string {
    return getComputedStyle(this.element).getPropertyValue(name).trim()
  }
}
