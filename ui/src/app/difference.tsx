import { diff } from './diff'

const ELEMENTS = { '+': 'ins', '-': 'del', ' ': 'span' } as const

export function Difference({ before, after }: { before: string; after: string }) {
  return (
    <pre class="difference" tabIndex={0}>
      {diff(before, after).map(([mark, line], index) => {
        const Line = ELEMENTS[mark]
        return (
          <Line key={index}>
            {mark} {line}
            {'\n'}
          </Line>
        )
      })}
    </pre>
  )
}
