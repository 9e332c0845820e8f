// What is known about the chosen node of a graph.
import { useEffect, useRef } from 'preact/hooks'
import { plural } from '../../shared/format'
import { get } from '../api'
import type { Node } from '../graph-model'
import { Markdown } from '../markdown'
import { refHref } from '../refs'
import { Await, useResource } from '../resource'

const MAX_CHARS = 1500

interface Props {
  reference: string
  node: Node
  onExpand: () => void
  onClose: () => void
}

interface Opened {
  content?: string // of a note
  entities?: { observations: string[] }[]
}

const textOf = ({ content, entities }: Opened) =>
  content ?? entities?.[0]?.observations.map((one) => '- ' + one.replaceAll('\n', '\n  ')).join('\n') ?? ''

export function GraphPanel({ reference, node, onExpand, onClose }: Props) {
  const opened = useResource(() => get('/api/open', { query: { ref: reference } }), [reference])
  const element = useRef<HTMLElement>(null)
  useEffect(() => element.current?.scrollIntoView({ block: 'nearest' }), [])
  return (
    <section class="card" aria-label={node.title} ref={element}>
      <div class="bar">
        <h2>{node.title}</h2>
        <span class="space" />
        <button class="link" aria-label="Close" onClick={onClose}>
          ×
        </button>
      </div>
      <p class="mut">
        {node.group} · {plural(node.degree, 'link')}
      </p>
      <Await resource={opened}>
        {(value) => {
          const text = textOf(value as Opened)
          return text ? (
            <Markdown text={text.length > MAX_CHARS ? text.slice(0, MAX_CHARS) + ' …' : text} />
          ) : (
            <p class="mut">Nothing is known about it yet.</p>
          )
        }}
      </Await>
      <div class="bar">
        <a class="button" href={refHref(reference)}>
          Open
        </a>
        <button onClick={onExpand}>Show its neighbors</button>
      </div>
    </section>
  )
}
