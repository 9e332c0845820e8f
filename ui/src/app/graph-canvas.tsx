import { useEffect, useRef, useState } from 'preact/hooks'
import { errorMessage } from '../shared/format'
import type { Edge, Node } from './graph-model'
import type { GraphPicture } from './graph-picture'

interface Props {
  nodes: Node[]
  edges: Edge[]
  label: string
  highlighted: string | null
  found: string | null // the picture moves to it
  onHover: (id: string | null) => void
  onChoose: (id: string) => void
}

/** The picture, with its library loaded on demand. The list beside it holds the same nodes, for screen readers and the
 *  keyboard. */
export function GraphCanvas({ nodes, edges, label, highlighted, found, onHover, onChoose }: Props) {
  const element = useRef<HTMLDivElement>(null)
  const [picture, setPicture] = useState<GraphPicture | null>(null)
  const [error, setError] = useState('')
  const callbacks = useRef({ onHover, onChoose })
  callbacks.current = { onHover, onChoose }
  useEffect(() => {
    let created: GraphPicture | null = null
    let isGone = false
    const create = async () => {
      const { GraphPicture } = await import('./graph-picture')
      if (isGone) return
      created = new GraphPicture(element.current!, {
        onHover: (id) => callbacks.current.onHover(id),
        onChoose: (id) => callbacks.current.onChoose(id),
      })
      setPicture(created)
    }
    create().catch((thrown: unknown) => setError(errorMessage(thrown)))
    return () => {
      isGone = true
      created?.destroy()
    }
  }, [])
  useEffect(() => picture?.show(nodes, edges), [picture, nodes, edges])
  useEffect(() => picture?.highlight(highlighted), [picture, highlighted])
  useEffect(() => {
    if (found) picture?.moveTo(found)
  }, [picture, found])
  return (
    <div class="graph-picture">
      <div ref={element} class="graph-canvas" role="img" aria-label={label} />
      {error && <p role="alert">{error}</p>}
      <div class="graph-controls" role="group" aria-label="Picture">
        <button aria-label="Zoom in" onClick={() => picture?.zoomBy(1.5)}>
          +
        </button>
        <button aria-label="Zoom out" onClick={() => picture?.zoomBy(1 / 1.5)}>
          −
        </button>
        <button onClick={() => picture?.fit()}>Fit</button>
      </div>
    </div>
  )
}
