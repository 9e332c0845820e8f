// What was put in front of models, when and why.
import type { Schemas } from '../../shared/api-types'
import { shortTime } from '../../shared/format'
import { get } from '../api'
import { refHref } from '../refs'
import { Await, useResource } from '../resource'
import { route } from '../router'
import { href } from '../urls'

const MOMENTS: Record<string, string> = {
  start: 'when the conversation began',
  prompt: 'with a prompt',
  capture: 'when the conversation was kept',
}

/** Of all conversations. */
export function GivenMemories() {
  const before = Number(route.value.query.before) || undefined
  const found = useResource(() => get('/api/given', { query: { before, limit: 50 } }), [before])
  return (
    <Await resource={found}>
      {(page) =>
        page.given.length ? (
          <>
            <GivenList calls={page.given} hasProjects />
            {page.next && (
              <p>
                <a class="button" href={href(['conversations'], { given: '1', before: String(page.next) })}>
                  Older
                </a>
              </p>
            )}
          </>
        ) : (
          <p class="empty">Nothing was given to a model yet.</p>
        )
      }
    </Await>
  )
}

interface ListProps {
  calls: Schemas['GivenShown'][]
  hasProjects?: boolean
}

export function GivenList({ calls, hasProjects = false }: ListProps) {
  return (
    <ul class="list" aria-label="Given to models">
      {calls.map((call) => (
        <li key={call.at + call.conversation}>
          <span class="mut">
            <time dateTime={call.at}>{shortTime(call.at)}</time>, {MOMENTS[call.moment] ?? call.event}
            {hasProjects && (
              <>
                {' '}
                to {call.client} in{' '}
                <a href={href(['conversations'], { ref: call.conversation })}>{call.project || 'a conversation'}</a>
              </>
            )}
          </span>
          <ul>
            {call.memories.map((memory) => (
              <li key={memory.ref}>
                {memory.title === null ? (
                  <span class="mut">a memory that was deleted since</span>
                ) : (
                  <a href={refHref(memory.ref)}>{memory.title}</a>
                )}
                {memory.why && <span class="mut"> – {memory.why}</span>}
              </li>
            ))}
          </ul>
        </li>
      ))}
    </ul>
  )
}
