import { useEffect, useRef } from 'preact/hooks'
import { GraphDrawing, type Edge, type Node, type Positions } from './graph-drawing'

interface Props {
  nodes: Node[]
  edges: Edge[]
  label: string
  focus?: string
  highlighted: string | null
  onHover: (id: string | null) => void
  onOpen: (id: string) => void
}

/** The list beside it holds the same nodes, for screen readers and the keyboard. */
export function GraphCanvas({ nodes, edges, label, focus, highlighted, onHover, onOpen }: Props) {
  const canvas = useRef<HTMLCanvasElement>(null)
  const positions = useRef<Positions>(new Map())
  const drawing = useRef<GraphDrawing>(undefined)
  useEffect(() => {
    const options = { focus, positions: positions.current, onHover, onOpen }
    const current = new GraphDrawing(canvas.current!, nodes, edges, options)
    drawing.current = current
    return () => {
      positions.current = current.stop()
    }
  }, [nodes, edges, focus])
  useEffect(() => drawing.current?.highlight(highlighted), [highlighted])
  return <canvas ref={canvas} class="graph-canvas" role="img" aria-label={label} />
}
