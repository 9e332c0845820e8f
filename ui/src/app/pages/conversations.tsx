// What was said to AI clients, as their hooks kept it, and what the clients' models were given.
import type { Schemas } from '../../shared/api-types'
import { ago, number, plural, shortTime } from '../../shared/format'
import { get } from '../api'
import { MEMORY_CHANGES } from '../changes'
import { Await, useResource } from '../resource'
import { route, setQuery } from '../router'
import { href } from '../urls'
import { grouped } from '../writes'
import { ConversationPage, conversationHref } from './conversation'
import { DeleteConversations } from './delete-conversations'
import { GivenMemories } from './given-memories'

type Page = Schemas['ConversationsPage']

export function Conversations() {
  const { ref = '', given = '' } = route.value.query
  if (ref) return <ConversationPage key={ref} reference={ref} />
  return (
    <>
      <h1>Conversations</h1>
      <p class="mut">What you and your AI clients said, and what they were given of your memories to read.</p>
      <nav class="bar" aria-label="Views">
        <a class="button" aria-current={given ? undefined : 'page'} href="/conversations">
          Conversations
        </a>
        <a class="button" aria-current={given ? 'page' : undefined} href="/conversations?given=1">
          Given to models
        </a>
      </nav>
      {given ? <GivenMemories /> : <ConversationList />}
    </>
  )
}

function ConversationList() {
  const { project = '', client = '', after = '' } = route.value.query
  const query = { project, client, after }
  const found = useResource(() => get('/api/conversations', { query }), [query], MEMORY_CHANGES, 'conversations')
  return (
    <Await resource={found}>
      {(page) =>
        page.projects.length ? <Listed page={page} project={project} client={client} /> : <NoConversations />
      }
    </Await>
  )
}

function NoConversations() {
  return (
    <div class="empty">
      <p>
        <b>No conversation is kept.</b>
      </p>
      <p>
        Clients such as Claude Code can keep what was said and look it up by themselves. It is off until you choose it:
        connect the client with <code>memory-mcp connect --auto</code>.
      </p>
    </div>
  )
}

interface ListedProps {
  page: Page
  project: string
  client: string
}

function Listed({ page, project, client }: ListedProps) {
  const all = page.projects.reduce((sum, { count }) => sum + count, 0)
  const byProject = grouped(page.conversations, (one) => one.project)
  const chosen = project ? (page.projects.find(({ name }) => name === project)?.count ?? 0) : all
  return (
    <>
      <div class="bar">
        <Choice label="Project" name="project" value={project} choices={page.projects} />
        <Choice label="Client" name="client" value={client} choices={page.clients} />
        <span class="space" />
        <DeleteConversations
          reference={'conversations:' + project}
          label={project ? `Delete all of ${project}` : 'Delete all conversations'}
          what={project ? `${plural(chosen, 'conversation')} of ${project}` : `all ${plural(all, 'conversation')}`}
        />
      </div>
      {byProject.map(([name, conversations]) => (
        <section class="card" key={name} aria-label={name}>
          <h2>{name}</h2>
          <ul class="list" aria-label={`Conversations of ${name}`}>
            {conversations.map((one) => (
              <ConversationItem key={one.ref} conversation={one} />
            ))}
          </ul>
        </section>
      ))}
      {page.next && (
        <p>
          <a class="button" rel="next" href={href(['conversations'], { project, client, after: page.next })}>
            Older
          </a>
        </p>
      )}
    </>
  )
}

interface ChoiceProps {
  label: string
  name: 'project' | 'client'
  value: string
  choices: Schemas['Named'][]
}

function Choice({ label, name, value, choices }: ChoiceProps) {
  return (
    <label>
      {label}{' '}
      <select value={value} onChange={(event) => setQuery({ [name]: event.currentTarget.value, after: '' })}>
        <option value="">all</option>
        {choices.map((choice) => (
          <option key={choice.name} value={choice.name}>
            {choice.name} ({number(choice.count)})
          </option>
        ))}
      </select>
    </label>
  )
}

function ConversationItem({ conversation }: { conversation: Schemas['ConversationListed'] }) {
  const { ref, title, client, messages, given, last_at } = conversation
  return (
    <li>
      <a href={conversationHref(ref)}>{title || 'Without a title'}</a>{' '}
      <span class="mut">
        {client} · {plural(messages, 'message')}
        {given > 0 && ` · given ${plural(given, 'memory', 'memories')}`} ·{' '}
        <time dateTime={last_at} title={shortTime(last_at)}>
          {ago(last_at)}
        </time>
      </span>
    </li>
  )
}
