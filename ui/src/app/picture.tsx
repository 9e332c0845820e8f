// A graph as a picture. What it shows is also in the list beside it, for who cannot see or point.
import { forceLink, forceManyBody, forceSimulation, forceX, forceY, type SimulationNodeDatum } from 'd3-force'
import { useEffect, useRef } from 'preact/hooks'

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

interface Placed extends SimulationNodeDatum, Node {
  degree: number
  near: Set<Placed>
}

interface Props {
  nodes: Node[]
  edges: Edge[]
  label: string
  focus?: string
  lit: string | null // the node that the list points at
  onHover: (id: string | null) => void
  onOpen: (id: string) => void
}

const MARGIN = 40 // around the outermost nodes
const COLORS = ['--accent', '--ok', '--warn', '--num', '--bad']

export function Picture({ nodes, edges, label, focus, lit, onHover, onOpen }: Props) {
  const place = useRef<HTMLCanvasElement>(null)
  const before = useRef(new Map<string, { x?: number; y?: number }>()) // where the nodes were: what somebody adds moves little
  const light = useRef<(id: string | null) => void>(() => {})
  useEffect(() => {
    const canvas = place.current!
    const pen = canvas.getContext('2d')!
    const ratio = devicePixelRatio || 1
    const css = getComputedStyle(canvas)
    const color = (name: string) => css.getPropertyValue(name).trim()
    const groups = [...new Set(nodes.map((node) => node.group))]
    const placed = new Map<string, Placed>(
      nodes.map((node) => [node.id, { ...node, ...before.current.get(node.id), degree: 0, near: new Set() }]),
    )
    const links = edges.flatMap((edge) => {
      const source = placed.get(edge.from)
      const target = placed.get(edge.to)
      if (!source || !target) return []
      source.degree++
      target.degree++
      source.near.add(target)
      target.near.add(source)
      return [{ source, target, label: edge.label }]
    })
    const all = [...placed.values()]
    const known = all.filter((node) => before.current.has(node.id)).length
    let isFitted = true // until somebody zooms or moves it
    let zoom = 1
    let panX = 0
    let panY = 0
    let wide = 0
    let high = 0
    let frame = 0
    let hovered: Placed | null = null
    const moving = forceSimulation(all)
      .force('links', forceLink(links).distance(60))
      .force('apart', forceManyBody<Placed>().strength(-90).theta(1.1))
      .force('x', forceX<Placed>().strength(0.06))
      .force('y', forceY<Placed>().strength(0.06))
      .stop()
    if (known > all.length / 2) moving.alpha(0.3)
    const radius = (node: Placed) => 4 + Math.sqrt(node.degree) * 1.8 + (node.id === focus ? 3 : 0)
    const fit = () => {
      const [left, right, top, bottom] = [bound('x', -1), bound('x', 1), bound('y', -1), bound('y', 1)]
      zoom = Math.max(0.02, Math.min(1.5, wide / (right - left + 2 * MARGIN), high / (bottom - top + 2 * MARGIN)))
      panX = (-(left + right) / 2) * zoom
      panY = (-(top + bottom) / 2) * zoom
    }
    const bound = (axis: 'x' | 'y', sign: number) =>
      sign * all.reduce((most, node) => Math.max(most, sign * node[axis]!), -Infinity)
    const draw = () => {
      if (isFitted && all.length) fit()
      pen.setTransform(ratio, 0, 0, ratio, 0, 0)
      pen.clearRect(0, 0, wide, high)
      pen.translate(wide / 2 + panX, high / 2 + panY)
      pen.scale(zoom, zoom)
      pen.strokeStyle = color('--mut')
      pen.lineWidth = 0.6 / zoom
      for (const link of links) {
        pen.globalAlpha = hovered && link.source !== hovered && link.target !== hovered ? 0.1 : 0.7
        pen.beginPath()
        pen.moveTo(link.source.x!, link.source.y!)
        pen.lineTo(link.target.x!, link.target.y!)
        pen.stroke()
      }
      pen.font = `${12 / zoom}px system-ui, sans-serif`
      pen.textAlign = 'center'
      for (const node of all) {
        pen.globalAlpha = hovered && node !== hovered && !hovered.near.has(node) ? 0.2 : 1
        pen.fillStyle = color(COLORS[groups.indexOf(node.group) % COLORS.length]!)
        pen.beginPath()
        pen.arc(node.x!, node.y!, radius(node), 0, 7)
        pen.fill()
        if (node === hovered || all.length <= 60 || node.degree * zoom > 6) {
          pen.fillStyle = color('--fg')
          pen.fillText(node.title.slice(0, 40), node.x!, node.y! + radius(node) + 13 / zoom)
        }
      }
      pen.globalAlpha = 1
    }
    const step = () => {
      moving.tick()
      draw()
      frame = moving.alpha() > 0.02 ? requestAnimationFrame(step) : 0
    }
    const resize = () => {
      wide = canvas.clientWidth
      high = canvas.clientHeight
      canvas.width = wide * ratio
      canvas.height = high * ratio
      draw()
    }
    if (matchMedia('(prefers-reduced-motion: reduce)').matches) moving.tick(250)
    else frame = requestAnimationFrame(step)
    const resized = new ResizeObserver(resize)
    resized.observe(canvas)
    resize()

    const at = (event: MouseEvent) => {
      const box = canvas.getBoundingClientRect()
      return (
        moving.find(
          (event.clientX - box.x - wide / 2 - panX) / zoom,
          (event.clientY - box.y - high / 2 - panY) / zoom,
          14 / zoom,
        ) ?? null
      )
    }
    const hover = (node: Placed | null) => {
      if (node === hovered) return
      hovered = node
      canvas.style.cursor = node ? 'pointer' : 'grab'
      draw()
    }
    light.current = (id) => hover((id && placed.get(id)) || null)
    let dragged = 0
    const onMove = (event: PointerEvent) => {
      if (event.buttons) {
        isFitted = false
        panX += event.movementX
        panY += event.movementY
        dragged += Math.abs(event.movementX) + Math.abs(event.movementY)
        draw()
        return
      }
      const node = at(event)
      hover(node)
      onHover(node?.id ?? null)
    }
    const onWheel = (event: WheelEvent) => {
      event.preventDefault()
      isFitted = false
      zoom = Math.max(0.02, Math.min(6, zoom * Math.exp(-event.deltaY * 0.0015)))
      draw()
    }
    const onDown = () => (dragged = 0)
    const onClick = (event: MouseEvent) => {
      const node = at(event)
      if (node && dragged < 5) onOpen(node.id)
    }
    canvas.addEventListener('pointerdown', onDown)
    canvas.addEventListener('pointermove', onMove)
    canvas.addEventListener('wheel', onWheel, { passive: false })
    canvas.addEventListener('click', onClick)
    return () => {
      before.current = new Map(all.map(({ id, x, y }) => [id, { x, y }]))
      cancelAnimationFrame(frame)
      resized.disconnect()
      canvas.removeEventListener('pointerdown', onDown)
      canvas.removeEventListener('pointermove', onMove)
      canvas.removeEventListener('wheel', onWheel)
      canvas.removeEventListener('click', onClick)
    }
  }, [nodes, edges, focus])
  useEffect(() => light.current(lit), [lit])
  return <canvas ref={place} class="picture" role="img" aria-label={label} />
}
