// Home: the notes that a person should look at.
import type { ComponentChildren } from 'preact'
import { plural } from '../../shared/format'
import { get } from '../api'
import { MEMORY_CHANGES } from '../changes'
import { useResource } from '../resource'
import { href } from '../urls'

const MAX_SHOWN_PAIRS = 3
const VECTOR_CHANGES = { ...MEMORY_CHANGES, topics: ['vectors'] }

export function Attention() {
  const counts = useResource(() => get('/api/notes/attention'), [], VECTOR_CHANGES).value
  const pairs = useResource(() => get('/api/notes/pairs', { query: {} }), []).value?.pairs ?? []
  const { superseded = 0, expired = 0, unembedded = 0 } = counts ?? {}
  if (!pairs.length && !superseded && !expired && !unembedded) return null
  return (
    <section class="card" aria-label="Needs attention">
      <h2>Needs attention</h2>
      <ul class="list">
        {pairs.slice(0, MAX_SHOWN_PAIRS).map(({ kind, newer, older }) => (
          <li key={newer.id + older.id}>
            “{newer.title}” and “{older.title}” {kind === 'same' ? 'say the same' : 'differ in some words'}.{' '}
            <a href="/memories/pairs">Compare them</a>
          </li>
        ))}
        {pairs.length > MAX_SHOWN_PAIRS && (
          <li>
            <a href="/memories/pairs">{plural(pairs.length - MAX_SHOWN_PAIRS, 'more pair')} of such notes</a>
          </li>
        )}
        <Line count={superseded} one="note is replaced by a newer one" many="notes are replaced by newer ones">
          <a href={href(['memories'], { state: 'superseded' })}>See which</a>
        </Line>
        <Line count={expired} one="note has expired" many="notes have expired">
          <a href={href(['memories'], { state: 'expired' })}>See which</a>
        </Line>
        <Line
          count={unembedded}
          one="note is found by its words only, not yet by its meaning"
          many="notes are found by their words only, not yet by their meaning"
        >
          <a href={href(['memories'], { state: 'unembedded' })}>See which</a> · <a href="/settings">Why</a>
        </Line>
      </ul>
    </section>
  )
}

interface LineProps {
  count: number
  one: string
  many: string
  children: ComponentChildren
}

function Line({ count, one, many, children }: LineProps) {
  if (!count) return null
  return (
    <li>
      {plural(count, one, many)}. {children}
    </li>
  )
}
