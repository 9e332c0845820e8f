import { useState } from 'preact/hooks'
import type { Schemas } from '../../shared/api-types'
import { CopyText } from '../../shared/copy-text'
import { Confirm } from '../../shared/confirm'
import { showError, toast } from '../../shared/toast'
import { ago, errorMessage } from '../../shared/format'
import { get, post, remove } from '../api'
import { CLIENTS, DEFAULT_CLIENT } from '../clients'
import { Await, useResource, useMinuteTick } from '../resource'
import { setQuery, route } from '../router'
import { Scroll } from '../../shared/scroll'

type Key = Schemas['KeyShown']
type NewKey = Schemas['NewKey']
type Scope = NonNullable<Schemas['KeyRequest']['scopes']>[number]

type Family = NonNullable<Schemas['KeyRequest']['families']>[number]

const SCOPES: Record<Scope, string> = {
  read_memory: 'read',
  write_memory: 'write',
  delete_memory: 'delete',
  manage_links: 'link notes',
}
const FAMILIES: Record<Family, string> = {
  notes: 'notes',
  vault: 'facts',
  stores: 'files of stores',
  graph: 'the graph',
  portals: 'tables (portals)',
  recall: 'search over everything',
}
const WITH_NAMESPACES: Family[] = ['notes', 'portals', 'recall']

export function Keys() {
  const keys = useResource(() => get('/api/mcp/keys'), [], { topics: ['keys'] })
  useMinuteTick()
  const [created, setCreated] = useState<NewKey | null>(null)
  return (
    <>
      <h1>Connect a client</h1>
      <p class="mut">
        A client is a program with an AI in it, such as Claude Code, Cursor or VS Code. It needs a key to use your
        memories: create one here, then copy the lines for your client. In a terminal on this computer,{' '}
        <code>memory-mcp connect</code> connects every client that it finds, without a key.
      </p>
      {created ? (
        <NewKeyCard created={created} onClose={() => setCreated(null)} />
      ) : (
        <NewKeyForm
          onCreated={(key) => {
            setCreated(key)
            keys.reload()
          }}
        />
      )}
      <Await resource={keys}>{(found) => <KeyTable keys={found.keys} reload={keys.reload} />}</Await>
    </>
  )
}

/** The request for a key. To the server, an empty list of families means all: no family chosen is no list here. */
function keyRequest(form: FormData): Schemas['KeyRequest'] {
  const field = (name: string) => {
    const value = form.get(name)
    return typeof value === 'string' ? value : ''
  }
  const families = Object.keys(FAMILIES).filter((name) => form.has(name)) as Family[]
  return {
    name: field('name'),
    scopes: Object.keys(SCOPES).filter((name) => form.has(name)) as Scope[],
    families: families.length === Object.keys(FAMILIES).length ? [] : families.length ? families : undefined,
    namespace: field('namespace') || 'default',
    confined: form.has('confined'),
    expires: field('expires') || null,
  }
}

function NewKeyForm({ onCreated }: { onCreated: (key: NewKey) => void }) {
  const [error, setError] = useState('')
  const [isConfined, setConfined] = useState(false)
  async function createKey(event: SubmitEvent) {
    event.preventDefault()
    const body = keyRequest(new FormData(event.currentTarget as HTMLFormElement))
    if (!body.scopes?.length) return setError('Choose at least one thing that it may do.')
    if (!body.families) return setError('Choose at least one kind of memories that it sees.')
    try {
      onCreated(await post('/api/mcp/keys', { body }))
    } catch (error) {
      setError(errorMessage(error))
    }
  }
  return (
    <form class="card stack" aria-label="New key" onSubmit={createKey}>
      <div class="bar">
        <label>
          Name <input name="name" required maxLength={100} placeholder="Cursor on my laptop" />
        </label>
        <label>
          Works{' '}
          <select name="expires">
            <option value="">without end</option>
            <option value="1d">a day</option>
            <option value="7d">7 days</option>
            <option value="30d">30 days</option>
            <option value="90d">90 days</option>
            <option value="365d">a year</option>
          </select>
        </label>
      </div>
      <fieldset class="bar">
        <legend>The client may</legend>
        {Object.entries(SCOPES).map(([name, label]) => (
          <label class="inline" key={name}>
            <input type="checkbox" name={name} defaultChecked /> {label}
          </label>
        ))}
      </fieldset>
      <details>
        <summary>Limit it to some memories</summary>
        <div class="stack">
          <fieldset class="bar">
            <legend>It sees</legend>
            {Object.entries(FAMILIES).map(([name, label]) => (
              <label class="inline" key={name}>
                <input
                  type="checkbox"
                  name={name}
                  defaultChecked
                  disabled={isConfined && !WITH_NAMESPACES.includes(name as Family)}
                />{' '}
                {label}
              </label>
            ))}
          </fieldset>
          <div class="bar">
            <label>
              Namespace <input name="namespace" placeholder="default" />
            </label>
            <label class="inline">
              <input
                type="checkbox"
                name="confined"
                checked={isConfined}
                onChange={(event) => setConfined(event.currentTarget.checked)}
              />{' '}
              Confined to the namespace
            </label>
          </div>
          <p class="mut">
            New notes go to the namespace. A confined key sees nothing outside it; facts, files and the graph have no
            namespaces.
          </p>
        </div>
      </details>
      <div class="bar">
        <button class="primary">Create key</button>
      </div>
      {error && (
        <p class="error" role="alert">
          {error}
        </p>
      )}
    </form>
  )
}

function NewKeyCard({ created, onClose }: { created: NewKey; onClose: () => void }) {
  const { client = DEFAULT_CLIENT } = route.value.query
  const setup = CLIENTS[Object.hasOwn(CLIENTS, client) ? client : DEFAULT_CLIENT]!(
    location.origin + '/mcp',
    created.key,
  )
  return (
    <section class="card once" aria-label="Your new key">
      <h2>{created.name}</h2>
      <p class="warn">This is the only time you see the key. Copy it, or the lines for your client.</p>
      <CopyText text={created.key} label="the key" />
      <div role="tablist" aria-label="Client" class="choice wrap">
        {Object.keys(CLIENTS).map((name) => (
          <button
            key={name}
            role="tab"
            aria-selected={name === client}
            onClick={() => setQuery({ client: name }, true)}
          >
            {name}
          </button>
        ))}
      </div>
      <p>{setup.instruction}</p>
      <CopyText text={setup.text} label={`the lines for ${client}`} />
      {setup.link && (
        <p>
          <a class="button" href={setup.link.href}>
            {setup.link.label}
          </a>
        </p>
      )}
      <FirstUse id={created.id} />
      <p>
        <button onClick={onClose}>I have stored it</button>
      </p>
    </section>
  )
}

/** The client that used a key first. It sends its name a little after its first call. */
async function firstUse(id: string): Promise<string | null> {
  const [{ keys }, { sessions }] = await Promise.all([get('/api/mcp/keys'), get('/api/mcp/sessions')])
  const client = sessions.find((session) => session.key_id === id)
  if (client) return `${client.client || 'A client'} ${client.version}`.trim()
  return keys.find((key) => key.id === id)?.last_used_at ? 'A client' : null
}

function FirstUse({ id }: { id: string }) {
  const seen = useResource(() => firstUse(id), [id], { topics: ['keys', 'clients'] }).value
  return (
    <p role="status" class={seen ? 'live on' : 'live'}>
      {seen ? (
        <>
          {seen} has called. See <a href="/sessions">Sessions</a>.
        </>
      ) : (
        'Waiting for the first call of the client…'
      )}
    </p>
  )
}

function KeyTable({ keys, reload }: { keys: Key[]; reload: () => void }) {
  if (!keys.length) return <p class="empty">No key yet. Create one above, and connect a client with it.</p>
  return (
    <Scroll label="Your keys">
      <table>
        <thead>
          <tr>
            <th scope="col">Name</th>
            <th scope="col">Key</th>
            <th scope="col">May</th>
            <th scope="col">Namespace</th>
            <th scope="col">Last used</th>
            <th scope="col">Works until</th>
            <th scope="col">
              <span class="hidden">Revoke</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {keys.map((key) => (
            <KeyRow key={key.id} item={key} reload={reload} />
          ))}
        </tbody>
      </table>
    </Scroll>
  )
}

const REVOKE_WARNING =
  'Its clients are disconnected within a second. It cannot be undone: a revoked key never works again.'

function KeyRow({ item: key, reload }: { item: Key; reload: () => void }) {
  const [isConfirming, setConfirming] = useState(false)
  const isInactive = Boolean(key.revoked_at) || (key.expires_at !== null && Date.parse(key.expires_at) < Date.now())
  async function revoke() {
    try {
      await remove('/api/mcp/keys/{key_id}', { path: { key_id: key.id } })
      toast(`${key.name} is revoked. Its client needs a new key.`)
      reload()
    } catch (error) {
      showError(error)
    }
  }
  const permissions = Object.entries(SCOPES).filter(([name]) => key.scopes.includes(name))
  return (
    <tr class={isInactive ? 'inactive' : ''}>
      <th scope="row">{key.name}</th>
      <td>
        <code>{key.key_prefix}…</code>
      </td>
      <td>
        {permissions.map(([, label]) => label).join(', ')}
        {key.families.length ? ` in ${key.families.join(', ')}` : ''}
      </td>
      <td>{key.confined ? <>only {key.namespace}</> : key.namespace}</td>
      <td>{ago(key.last_used_at)}</td>
      <td>{key.revoked_at ? 'revoked' : isInactive ? 'expired' : (key.expires_at?.slice(0, 10) ?? 'without end')}</td>
      <td>
        {isConfirming && (
          <Confirm
            title={`Revoke ${key.name}?`}
            text={REVOKE_WARNING}
            cancelLabel="Keep it"
            confirmLabel="Revoke permanently"
            onConfirm={() => void revoke()}
            onClose={() => setConfirming(false)}
          />
        )}
        {!isInactive && (
          <button class="danger" aria-label={`Revoke ${key.name}`} onClick={() => setConfirming(true)}>
            Revoke
          </button>
        )}
      </td>
    </tr>
  )
}
