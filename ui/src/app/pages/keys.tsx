import { useState } from 'preact/hooks'
import { Copied } from '../../shared/copied'
import { Sure } from '../../shared/sure'
import { failed, toast } from '../../shared/toast'
import { ago, message } from '../../shared/words'
import { get, post, remove } from '../api'
import { Awaited, useLoaded, useMinutes } from '../loading'
import { turn, where } from '../router'

interface Key {
  id: string
  name: string
  key_prefix: string
  namespace: string
  confined: boolean
  scopes: string[]
  families: string[]
  created_at: string
  expires_at: string | null
  revoked_at: string | null
  last_used_at: string | null
}

interface NewKey extends Key {
  key: string
}

const ALL = ['read_memory', 'write_memory', 'delete_memory', 'manage_links']
const MAY: Record<string, string[]> = {
  'read and write': ALL,
  'read and add': ['read_memory', 'write_memory', 'manage_links'],
  'read only': ['read_memory'],
}

/** How each client is told of this server, with a key in it. */
const CLIENTS: Record<string, (url: string, key: string) => { how: string; text: string; link?: [string, string] }> = {
  'Claude Code': (url, key) => ({
    how: 'Run this in a terminal:',
    text: `claude mcp add --transport http --scope user memory ${url} --header "Authorization: Bearer ${key}"`,
  }),
  'Claude Desktop': () => ({
    how: 'It starts its own copy, on the same memory and without a key. In claude_desktop_config.json:',
    text: json({ mcpServers: { memory: { command: 'memory-mcp' } } }),
  }),
  Cursor: (url, key) => ({
    how: 'In ~/.cursor/mcp.json:',
    text: json({ mcpServers: { memory: server(url, key) } }),
    link: [
      'Add to Cursor',
      `cursor://anysphere.cursor-deeplink/mcp/install?name=memory&config=${encodeURIComponent(btoa(JSON.stringify(server(url, key))))}`,
    ],
  }),
  'VS Code': (url, key) => ({
    how: 'In .vscode/mcp.json:',
    text: json({ servers: { memory: { type: 'http', ...server(url, key) } } }),
  }),
  'Gemini CLI': (url, key) => ({
    how: 'In ~/.gemini/settings.json:',
    text: json({ mcpServers: { memory: { httpUrl: url, headers: { Authorization: `Bearer ${key}` } } } }),
  }),
  Codex: (url) => ({
    how: 'In ~/.codex/config.toml, with the key in the variable MEMORY_MCP_KEY:',
    text: `[mcp_servers.memory]\nurl = "${url}"\nbearer_token_env_var = "MEMORY_MCP_KEY"`,
  }),
  curl: (url, key) => ({
    how: 'To see that it works:',
    text: `curl ${url} -H "Authorization: Bearer ${key}" -H "Content-Type: application/json" -H "Accept: application/json, text/event-stream" -d '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"curl","version":"1"}}}'`,
  }),
}
const server = (url: string, key: string) => ({ url, headers: { Authorization: `Bearer ${key}` } })
const json = (value: unknown) => JSON.stringify(value, null, 2)

export function Keys() {
  const keys = useLoaded(() => get<{ keys: Key[] }>('/api/mcp/keys'), [], { topics: ['keys'] })
  useMinutes()
  const [made, setMade] = useState<NewKey | null>(null)
  return (
    <>
      <h1>Keys</h1>
      <p class="mut">A client over HTTP presents a key. What it writes is yours; what it may do, the key says.</p>
      {made ? (
        <Once made={made} close={() => setMade(null)} />
      ) : (
        <Making made={(key) => (setMade(key), keys.again())} />
      )}
      <Awaited of={keys}>{(found) => <List keys={found.keys} again={keys.again} />}</Awaited>
    </>
  )
}

function Making({ made }: { made: (key: NewKey) => void }) {
  const [trouble, setTrouble] = useState('')
  async function make(event: SubmitEvent) {
    event.preventDefault()
    const given = Object.fromEntries(new FormData(event.currentTarget as HTMLFormElement)) as Record<string, string>
    try {
      made(
        await post<NewKey>('/api/mcp/keys', {
          name: given.name,
          scopes: MAY[given.may!],
          namespace: given.namespace || 'default',
          confined: given.confined === 'on',
          expires: given.expires || null,
        }),
      )
    } catch (error) {
      setTrouble(message(error))
    }
  }
  return (
    <form class="card bar" aria-label="New key" onSubmit={make}>
      <label>
        Name <input name="name" required maxLength={100} placeholder="laptop" />
      </label>
      <label>
        May{' '}
        <select name="may">
          {Object.keys(MAY).map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
      </label>
      <label>
        Namespace <input name="namespace" placeholder="default" />
      </label>
      <label title="It reaches the notes and portals of its namespace, and nothing else.">
        <input type="checkbox" name="confined" /> Confined to the namespace
      </label>
      <label>
        Works{' '}
        <select name="expires">
          <option value="">for good</option>
          <option value="7d">7 days</option>
          <option value="30d">30 days</option>
          <option value="90d">90 days</option>
          <option value="365d">a year</option>
        </select>
      </label>
      <button class="primary">Create key</button>
      {trouble && (
        <p class="trouble" role="alert">
          {trouble}
        </p>
      )}
    </form>
  )
}

function Once({ made, close }: { made: NewKey; close: () => void }) {
  const client = where.value.query.client ?? 'Claude Code'
  const shown = (CLIENTS[client] ?? CLIENTS['Claude Code']!)(location.origin + '/mcp', made.key)
  return (
    <section class="card once" aria-label="Your new key">
      <h2>{made.name}</h2>
      <p class="warn">This is the only time you see the key. Copy it, or a line that has it.</p>
      <Copied text={made.key} label="the key" />
      <div role="tablist" aria-label="Client" class="choice wrap">
        {Object.keys(CLIENTS).map((name) => (
          <button key={name} role="tab" aria-selected={name === client} onClick={() => turn({ client: name }, true)}>
            {name}
          </button>
        ))}
      </div>
      <p>{shown.how}</p>
      <Copied text={shown.text} label={`the lines for ${client}`} />
      {shown.link && (
        <p>
          <a class="button" href={shown.link[1]}>
            {shown.link[0]}
          </a>
        </p>
      )}
      <Waiting id={made.id} />
      <p>
        <button onClick={close}>I have stored it</button>
      </p>
    </section>
  )
}

interface Caller {
  key_id: string | null
  client: string
  version: string
}

/** Who used a key, once somebody has: a client says its name a little after its first call. */
async function firstUse(id: string): Promise<string | null> {
  const [{ keys }, { sessions }] = await Promise.all([
    get<{ keys: Key[] }>('/api/mcp/keys'),
    get<{ sessions: Caller[] }>('/api/mcp/sessions'),
  ])
  const client = sessions.find((session) => session.key_id === id)
  if (client) return `${client.client || 'A client'} ${client.version}`.trim()
  return keys.find((key) => key.id === id)?.last_used_at ? 'A client' : null
}

function Waiting({ id }: { id: string }) {
  const seen = useLoaded(() => firstUse(id), [id], { topics: ['keys', 'clients'] }).value
  return (
    <p role="status" class={seen ? 'live on' : 'live'}>
      {seen ? (
        <>
          {seen} has called. See <a href="/sessions">Sessions</a>.
        </>
      ) : (
        'Waiting for the first call…'
      )}
    </p>
  )
}

function List({ keys, again }: { keys: Key[]; again: () => void }) {
  if (!keys.length) return <p class="empty">No key yet. Create one above, and connect a client with it.</p>
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Your keys">
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
            <One key={key.id} of={key} again={again} />
          ))}
        </tbody>
      </table>
    </div>
  )
}

function One({ of: key, again }: { of: Key; again: () => void }) {
  const [isSure, setSure] = useState(false)
  const isOver = Boolean(key.revoked_at) || (key.expires_at !== null && Date.parse(key.expires_at) < Date.now())
  async function revoke() {
    try {
      await remove(`/api/mcp/keys/${key.id}`)
      toast(`${key.name} opens nothing any more. A new key lets its client back in.`)
      again()
    } catch (error) {
      failed(error)
    }
  }
  const may = Object.entries(MAY).find(
    ([, scopes]) => scopes.length === key.scopes.length && scopes.every((scope) => key.scopes.includes(scope)),
  )?.[0]
  return (
    <tr class={isOver ? 'over' : ''}>
      <th scope="row">{key.name}</th>
      <td>
        <code>{key.key_prefix}…</code>
      </td>
      <td>
        {may ?? key.scopes.join(', ')}
        {key.families.length ? ` in ${key.families.join(', ')}` : ''}
      </td>
      <td>{key.confined ? <>only {key.namespace}</> : key.namespace}</td>
      <td>{ago(key.last_used_at)}</td>
      <td>{key.revoked_at ? 'revoked' : isOver ? 'expired' : (key.expires_at?.slice(0, 10) ?? 'for good')}</td>
      <td>
        {isSure && (
          <Sure
            title={`Revoke ${key.name}?`}
            text="Whoever uses it is cut off within a second, and their open streams end. It cannot be undone: a key that was revoked never works again."
            no="Keep it"
            yes="Revoke for good"
            act={revoke}
            leave={() => setSure(false)}
          />
        )}
        {!isOver && (
          <button class="danger" aria-label={`Revoke ${key.name}`} onClick={() => setSure(true)}>
            Revoke
          </button>
        )}
      </td>
    </tr>
  )
}
