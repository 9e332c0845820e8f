// A force-directed graph on a canvas: layout, zoom, pan and hover.
import { forceLink, forceManyBody, forceSimulation, forceX, forceY, type SimulationNodeDatum } from 'd3-force'

export interface Node {
  id: string
  title: string
  group: string
}

export interface Edge {
  from: string
  to: string
  label?: string
}

export type Positions = Map<string, { x?: number; y?: number }>

interface PlacedNode extends SimulationNodeDatum, Node {
  degree: number
  neighbors: Set<PlacedNode>
}

interface Link {
  source: PlacedNode
  target: PlacedNode
}

interface Options {
  focus?: string
  positions: Positions // of a former drawing: an added node moves the others little
  onHover: (id: string | null) => void
  onOpen: (id: string) => void
}

const MARGIN_PX = 40
const [MIN_ZOOM, MAX_ZOOM, MAX_FIT_ZOOM] = [0.02, 6, 1.5]
const HIT_RADIUS_PX = 14
const MAX_CLICK_MOVE_PX = 5
const MAX_LABELED_NODES = 60
const COLORS = ['--accent', '--ok', '--warn', '--num', '--bad'] as const

/** The nodes with their neighbors, and the edges whose two ends are there. */
export function place(nodes: Node[], edges: Edge[], positions: Positions): { nodes: PlacedNode[]; links: Link[] } {
  const placed = new Map<string, PlacedNode>(
    nodes.map((node) => [node.id, { ...node, ...positions.get(node.id), degree: 0, neighbors: new Set() }]),
  )
  const links = edges.flatMap((edge) => {
    const [source, target] = [placed.get(edge.from), placed.get(edge.to)]
    if (!source || !target) return []
    source.degree++
    target.degree++
    source.neighbors.add(target)
    target.neighbors.add(source)
    return [{ source, target }]
  })
  return { nodes: [...placed.values()], links }
}

export class GraphDrawing {
  private readonly context: CanvasRenderingContext2D
  private readonly ratio = devicePixelRatio || 1
  private readonly nodes: PlacedNode[]
  private readonly links: Link[]
  private readonly groups: string[]
  private readonly simulation
  private readonly observer = new ResizeObserver(() => this.resize())
  private readonly listeners = new AbortController()
  private isFitted = true // until the user zooms or pans
  private zoom = 1
  private pan = { x: 0, y: 0 }
  private width = 0
  private height = 0
  private frame = 0
  private draggedPx = 0
  private hovered: PlacedNode | null = null

  constructor(
    private readonly canvas: HTMLCanvasElement,
    nodes: Node[],
    edges: Edge[],
    private readonly options: Options,
  ) {
    this.context = canvas.getContext('2d')!
    const placed = place(nodes, edges, options.positions)
    this.nodes = placed.nodes
    this.links = placed.links
    this.groups = [...new Set(nodes.map((node) => node.group))]
    this.simulation = forceSimulation(this.nodes)
      .force('links', forceLink(this.links).distance(60))
      .force('apart', forceManyBody<PlacedNode>().strength(-90).theta(1.1))
      .force('x', forceX<PlacedNode>().strength(0.06))
      .force('y', forceY<PlacedNode>().strength(0.06))
      .stop()
    const known = this.nodes.filter((node) => options.positions.has(node.id)).length
    if (known > this.nodes.length / 2) this.simulation.alpha(0.3)
    this.start()
  }

  /** Stop, and return where the nodes are. */
  stop(): Positions {
    cancelAnimationFrame(this.frame)
    this.observer.disconnect()
    this.listeners.abort()
    return new Map(this.nodes.map(({ id, x, y }) => [id, { x, y }]))
  }

  highlight(id: string | null): void {
    this.hover(this.nodes.find((node) => node.id === id) ?? null)
  }

  private start(): void {
    if (matchMedia('(prefers-reduced-motion: reduce)').matches) this.simulation.tick(250)
    else this.frame = requestAnimationFrame(() => this.step())
    this.observer.observe(this.canvas)
    this.resize()
    const { signal } = this.listeners
    this.canvas.addEventListener('pointerdown', () => (this.draggedPx = 0), { signal })
    this.canvas.addEventListener('pointermove', (event) => this.onPointerMove(event), { signal })
    this.canvas.addEventListener('wheel', (event) => this.onWheel(event), { signal, passive: false })
    this.canvas.addEventListener('click', (event) => this.onClick(event), { signal })
  }

  private step(): void {
    this.simulation.tick()
    this.draw()
    this.frame = this.simulation.alpha() > 0.02 ? requestAnimationFrame(() => this.step()) : 0
  }

  private resize(): void {
    this.width = this.canvas.clientWidth
    this.height = this.canvas.clientHeight
    this.canvas.width = this.width * this.ratio
    this.canvas.height = this.height * this.ratio
    this.draw()
  }

  private fit(): void {
    const extent = (axis: 'x' | 'y', sign: 1 | -1) =>
      sign * this.nodes.reduce((most, node) => Math.max(most, sign * node[axis]!), -Infinity)
    const [left, right, top, bottom] = [extent('x', -1), extent('x', 1), extent('y', -1), extent('y', 1)]
    const fitting = Math.min(this.width / (right - left + 2 * MARGIN_PX), this.height / (bottom - top + 2 * MARGIN_PX))
    this.zoom = Math.max(MIN_ZOOM, Math.min(MAX_FIT_ZOOM, fitting))
    this.pan = { x: (-(left + right) / 2) * this.zoom, y: (-(top + bottom) / 2) * this.zoom }
  }

  private draw(): void {
    const { context } = this
    if (this.isFitted && this.nodes.length) this.fit()
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0)
    context.clearRect(0, 0, this.width, this.height)
    context.translate(this.width / 2 + this.pan.x, this.height / 2 + this.pan.y)
    context.scale(this.zoom, this.zoom)
    this.drawLinks()
    this.drawNodes()
    context.globalAlpha = 1
  }

  private drawLinks(): void {
    const { context, hovered } = this
    context.strokeStyle = this.color('--mut')
    context.lineWidth = 0.6 / this.zoom
    for (const { source, target } of this.links) {
      context.globalAlpha = hovered && source !== hovered && target !== hovered ? 0.1 : 0.7
      context.beginPath()
      context.moveTo(source.x!, source.y!)
      context.lineTo(target.x!, target.y!)
      context.stroke()
    }
  }

  private drawNodes(): void {
    const { context, hovered } = this
    const colors = COLORS.map((name) => this.color(name))
    context.font = `${12 / this.zoom}px system-ui, sans-serif`
    context.textAlign = 'center'
    for (const node of this.nodes) {
      const radius = 4 + Math.sqrt(node.degree) * 1.8 + (node.id === this.options.focus ? 3 : 0)
      context.globalAlpha = hovered && node !== hovered && !hovered.neighbors.has(node) ? 0.2 : 1
      context.fillStyle = colors[this.groups.indexOf(node.group) % colors.length]!
      context.beginPath()
      context.arc(node.x!, node.y!, radius, 0, 2 * Math.PI)
      context.fill()
      if (node !== hovered && this.nodes.length > MAX_LABELED_NODES && node.degree * this.zoom <= 6) continue
      context.fillStyle = this.color('--fg')
      context.fillText(node.title.slice(0, 40), node.x!, node.y! + radius + 13 / this.zoom)
    }
  }

  private color(name: string): string {
    return getComputedStyle(this.canvas).getPropertyValue(name).trim()
  }

  private nodeAt(event: MouseEvent): PlacedNode | null {
    const box = this.canvas.getBoundingClientRect()
    const x = (event.clientX - box.x - this.width / 2 - this.pan.x) / this.zoom
    const y = (event.clientY - box.y - this.height / 2 - this.pan.y) / this.zoom
    return this.simulation.find(x, y, HIT_RADIUS_PX / this.zoom) ?? null
  }

  private hover(node: PlacedNode | null): void {
    if (node === this.hovered) return
    this.hovered = node
    this.canvas.style.cursor = node ? 'pointer' : 'grab'
    this.draw()
  }

  private onPointerMove(event: PointerEvent): void {
    if (event.buttons) {
      this.isFitted = false
      this.pan = { x: this.pan.x + event.movementX, y: this.pan.y + event.movementY }
      this.draggedPx += Math.abs(event.movementX) + Math.abs(event.movementY)
      this.draw()
      return
    }
    const node = this.nodeAt(event)
    this.hover(node)
    this.options.onHover(node?.id ?? null)
  }

  private onWheel(event: WheelEvent): void {
    event.preventDefault()
    this.isFitted = false
    this.zoom = Math.max(MIN_ZOOM, Math.min(MAX_ZOOM, this.zoom * Math.exp(-event.deltaY * 0.0015)))
    this.draw()
  }

  private onClick(event: MouseEvent): void {
    const node = this.nodeAt(event)
    if (node && this.draggedPx < MAX_CLICK_MOVE_PX) this.options.onOpen(node.id)
  }
}
