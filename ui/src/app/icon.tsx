// Icons of Lucide (https://lucide.dev), drawn in the color of the text. Beside words they are only decoration.
import { h } from 'preact'
import type { IconNode } from 'lucide'

export type { IconNode }

export function Icon({ node }: { node: IconNode }) {
  return (
    <svg class="icon" viewBox="0 0 24 24" aria-hidden="true">
      {node.map(([tag, attributes]) => h(tag, attributes))}
    </svg>
  )
}
