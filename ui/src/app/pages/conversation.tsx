// One conversation: its messages in their order, and what its model was given.
import { useState } from 'preact/hooks'
import type { Schemas } from '../../shared/api-types'
import { plural, shortTime } from '../../shared/format'
import { showError } from '../../shared/toast'
import { get } from '../api'
import { Markdown } from '../markdown'
import { refHref } from '../refs'
import { Await, useResource } from '../resource'
import { usePageTitle } from '../title'
import { href } from '../urls'
import { DeleteConversations } from './delete-conversations'
import { GivenList } from './given-memories'

type Shown = Schemas['ConversationShown']
type Message = Schemas['MessageShown']

export const conversationHref = (ref: string) => href(['conversations'], { ref })

const AUTHORS: Record<Message['role'], string> = { user: 'You', assistant: 'Assistant', tool: 'Tools' }

const load = (ref: string, after = 0) => get('/api/conversations/messages', { query: { ref, after } })

export function ConversationPage({ reference }: { reference: string }) {
  const found = useResource(() => load(reference), [reference])
  return (
    <>
      <p>
        <a href="/conversations">Conversations</a>
      </p>
      {found.error && <h1>Conversation</h1>}
      <Await resource={found}>{(shown) => <ConversationView shown={shown} />}</Await>
    </>
  )
}

function ConversationView({ shown }: { shown: Shown }) {
  const { ref, title, project, client, messages, started_at, last_at } = shown.conversation
  const name = title || 'Without a title'
  usePageTitle(name)
  return (
    <article class="note">
      <div class="bar heading">
        <h1>{name}</h1>
        <span class="space" />
        <DeleteConversations reference={ref} label="Delete" what={`“${name}”`} leadsTo="/conversations" />
      </div>
      <p class="mut">
        <a href={href(['conversations'], { project })}>{project}</a> · {client} · {plural(messages, 'message')} ·{' '}
        {shortTime(started_at)} to {shortTime(last_at)}
      </p>
      <Messages shown={shown} />
      <Given reference={ref} />
    </article>
  )
}

function Messages({ shown }: { shown: Shown }) {
  const [further, setFurther] = useState<Pick<Shown, 'messages' | 'next'>>({ messages: [], next: shown.next })
  const messages = [...shown.messages, ...further.messages]
  async function showMore() {
    try {
      const { messages: added, next } = await load(shown.conversation.ref, further.next ?? 0)
      setFurther({ messages: [...further.messages, ...added], next })
    } catch (error) {
      showError(error)
    }
  }
  return (
    <>
      <ol class="messages" aria-label="Messages">
        {messages.map((message) => (
          <li key={message.ref} class={message.role}>
            <MessageView message={message} />
          </li>
        ))}
      </ol>
      {further.next !== null && (
        <p>
          <button onClick={showMore}>Show more</button>
        </p>
      )}
    </>
  )
}

function MessageView({ message: { role, text, at, ref, superseded_by } }: { message: Message }) {
  return (
    <>
      <p class="mut">
        <b>{AUTHORS[role]}</b> ·{' '}
        <a class="quiet" href={refHref(ref)}>
          <time dateTime={at}>{shortTime(at)}</time>
        </a>
        {superseded_by && (
          <>
            {' · '}
            <a href={refHref(superseded_by)}>replaced by a note</a>
          </>
        )}
      </p>
      {role === 'tool' ? <p class="mut tool-text">{text}</p> : <Markdown text={text} />}
    </>
  )
}

/** What the model of this conversation was given. */
function Given({ reference }: { reference: string }) {
  const given = useResource(() => get('/api/given', { query: { ref: reference, limit: 100 } }), [reference])
  return (
    <section class="card">
      <h2>Given to the model</h2>
      <Await resource={given}>
        {(page) =>
          page.given.length ? (
            <GivenList calls={page.given} />
          ) : (
            <p class="mut">None of your memories was given to this conversation.</p>
          )
        }
      </Await>
    </section>
  )
}
