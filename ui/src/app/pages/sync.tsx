import { useState } from 'preact/hooks'
import { Copied } from '../../shared/copied'
import { Sure } from '../../shared/sure'
import { failed, toast } from '../../shared/toast'
import { ago, message, number } from '../../shared/words'
import { get, post, tool } from '../api'
import { MEMORIES } from '../live'
import { Awaited, useLoaded, useMinutes } from '../loading'

interface Namespace {
  namespace: string
  enabled: boolean
  notes: number
  outbox: number
  to_pull: number
  refused: string[]
  pushed_at: string | null
  pulled_at: string | null
}

interface Status {
  linked: boolean
  url: string | null
  encrypted: boolean
  node: string
  synced_at: string | null
  error: string | null
  namespaces: Namespace[]
  set_aside: { id: string; reason: string }[]
}

const TELLS: Record<string, (namespace: string) => string> = {
  enable: (name) => `${name} is synced from now on.`,
  disable: (name) => `${name} is not synced for now. Changes wait.`,
  resync: (name) => `${name} is exchanged as a whole.`,
  'clear-state': (name) => `All about syncing ${name} is forgotten. Its notes stay.`,
}

export function Sync() {
  const status = useLoaded(() => get<Status>('/api/mcp/sync/status'), [], { topics: ['sync'], ...MEMORIES })
  const namespaces = useLoaded(
    () => tool<{ namespaces: { namespace: string; count: number }[] }>('memory_list_namespaces'),
    [],
    MEMORIES,
  )
  useMinutes()
  const [secret, setSecret] = useState<string | null>(null)
  const linked = (made: string | null) => (setSecret(made), status.again())
  return (
    <>
      <h1>Sync</h1>
      <p class="mut">The notes of a namespace, the same on several computers, through a hub of your own.</p>
      {secret && <Secret text={secret} close={() => setSecret(null)} />}
      <Awaited of={status}>
        {(found) =>
          found.linked ? (
            <>
              <Hub status={found} again={status.again} />
              <SetAside records={found.set_aside} />
              <Namespaces status={found} there={namespaces.value?.namespaces ?? []} again={status.again} />
            </>
          ) : (
            <Linking linked={linked} />
          )
        }
      </Awaited>
    </>
  )
}

function Linking({ linked }: { linked: (secret: string | null) => void }) {
  const [trouble, setTrouble] = useState('')
  const [isAsking, setAsking] = useState(false)
  const [sealing, setSealing] = useState('none')
  async function link(event: SubmitEvent) {
    event.preventDefault()
    const given = Object.fromEntries(new FormData(event.currentTarget as HTMLFormElement)) as Record<string, string>
    setAsking(true)
    setTrouble('')
    try {
      const made = await post<{ secret: string | null }>('/api/mcp/sync/link', {
        url: given.url!.trim(),
        key: given.key!.trim(),
        encrypt: sealing === 'new',
        secret: sealing === 'other' ? given.secret!.trim() : null,
      })
      linked(made.secret)
    } catch (error) {
      setTrouble(message(error))
    } finally {
      setAsking(false)
    }
  }
  return (
    <form class="card stack" aria-label="Link a hub" onSubmit={link}>
      <h2>Link a hub</h2>
      <p>
        On the computer that is the hub, run <code>memory-mcp hub --port 8766 --data-dir ~/hub</code>, and make a key
        there with <code>memory-mcp keys create --name laptop --data-dir ~/hub</code>. Nothing is sent until you enable
        a namespace.
      </p>
      <label>
        Address <input name="url" type="url" required placeholder="as the hub prints it" />
      </label>
      <label>
        Key <input name="key" type="password" autocomplete="off" required placeholder="mmcp_…" />
      </label>
      <label>
        Encryption{' '}
        <select value={sealing} onChange={(event) => setSealing(event.currentTarget.value)}>
          <option value="none">none: the hub can read the notes</option>
          <option value="new">with a new secret</option>
          <option value="other">with the secret of my other computers</option>
        </select>
      </label>
      {sealing === 'other' && (
        <label>
          Secret <input name="secret" type="password" autocomplete="off" required placeholder="mms_…" />
        </label>
      )}
      <p>
        <button class="primary" disabled={isAsking}>
          {isAsking ? 'Asking the hub…' : 'Link'}
        </button>
      </p>
      {trouble && (
        <p class="trouble" role="alert">
          {trouble}
        </p>
      )}
    </form>
  )
}

function Secret({ text, close }: { text: string; close: () => void }) {
  return (
    <section class="card once" aria-label="Your secret">
      <h2>The secret for your other computers</h2>
      <p class="warn">This is the only time you see it. Nobody can read the hub’s copy without it.</p>
      <Copied text={text} label="the secret" />
      <p>
        <button onClick={close}>I have stored it</button>
      </p>
    </section>
  )
}

function Hub({ status, again }: { status: Status; again: () => void }) {
  const [isBusy, setBusy] = useState(false)
  const [isSure, setSure] = useState(false)
  async function sync() {
    setBusy(true)
    try {
      const done = await post<{ pushed: number; pulled: number; left: number }>('/api/mcp/sync/now')
      toast(
        `${number(done.pushed)} sent, ${number(done.pulled)} taken in${done.left ? `, ${number(done.left)} left` : ''}.`,
      )
    } catch (error) {
      failed(error)
    } finally {
      setBusy(false)
      again()
    }
  }
  async function unlink() {
    try {
      await post('/api/mcp/sync/unlink')
      again()
    } catch (error) {
      failed(error)
    }
  }
  return (
    <section class="card" aria-label="The hub">
      <dl class="pairs">
        <div>
          <dt>Hub</dt>
          <dd>
            {status.url}{' '}
            {status.encrypted ? <span class="mut">encrypted</span> : <span class="mut">can read the notes</span>}
          </dd>
        </div>
        <div>
          <dt>This node</dt>
          <dd>
            <code>{status.node}</code>
          </dd>
        </div>
        <div>
          <dt>In step</dt>
          <dd>{status.synced_at ? ago(status.synced_at) : 'not yet'}</dd>
        </div>
      </dl>
      {status.error && (
        <p class="trouble" role="status">
          {status.error}
        </p>
      )}
      <p class="bar">
        {isSure && (
          <Sure
            title="Unlink this hub?"
            text="Nothing is synced any more. Notes stay, here and at the hub; link it again to go on."
            no="Keep it"
            yes="Unlink"
            act={unlink}
            leave={() => setSure(false)}
          />
        )}
        <button class="primary" disabled={isBusy} onClick={sync}>
          {isBusy ? 'Syncing…' : 'Sync now'}
        </button>
        <button onClick={() => setSure(true)}>Unlink</button>
      </p>
    </section>
  )
}

/** What the hub has and this computer could not take in. */
function SetAside({ records }: { records: Status['set_aside'] }) {
  if (!records.length) return null
  return (
    <section class="card" aria-label="Set aside">
      <h2>Set aside</h2>
      <p class="trouble">
        {records.length === 1 ? 'A note at the hub' : `${number(records.length)} notes at the hub`} could not be taken
        in. Resync asks the hub for {records.length === 1 ? 'it' : 'them'} again, as after an update of this program.
      </p>
      <ul>
        {records.map((one, at) => (
          <li key={at}>
            <code>{one.id || 'a record without an id'}</code> {one.reason}
          </li>
        ))}
      </ul>
    </section>
  )
}

function Namespaces({
  status,
  there,
  again,
}: {
  status: Status
  there: { namespace: string; count: number }[]
  again: () => void
}) {
  const known = new Map(status.namespaces.map((one) => [one.namespace, one]))
  const names = [...new Set([...known.keys(), ...there.map((one) => one.namespace)])].sort()
  async function tell(verb: string, namespace: string) {
    try {
      await post(`/api/mcp/sync/${verb}`, { namespace })
      toast(TELLS[verb]!(namespace), verb === 'disable' ? { undo: () => tell('enable', namespace) } : {})
    } catch (error) {
      failed(error)
    }
    again()
  }
  const [clearing, setClearing] = useState<string | null>(null)
  async function add(event: SubmitEvent) {
    event.preventDefault()
    const form = event.currentTarget as HTMLFormElement
    await tell('enable', String(new FormData(form).get('namespace')).trim())
    form.reset()
  }
  return (
    <>
      {clearing !== null && (
        <Sure
          title={`Clear the state of ${clearing}?`}
          text="What is known about syncing it is forgotten, and it is synced no more. Its notes stay, here and at the hub."
          no="Keep it"
          yes="Clear state"
          act={() => void tell('clear-state', clearing)}
          leave={() => setClearing(null)}
        />
      )}
      {names.length ? (
        <div class="scroll" tabIndex={0} role="region" aria-label="Namespaces">
          <table>
            <thead>
              <tr>
                <th scope="col">Namespace</th>
                <th scope="col">Synced</th>
                <th scope="col" class="num">
                  Notes
                </th>
                <th scope="col" class="num">
                  To send
                </th>
                <th scope="col" class="num">
                  To take in
                </th>
                <th scope="col">Last sent</th>
                <th scope="col">Last asked</th>
                <th scope="col">
                  <span class="hidden">What to do</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {names.map((name) => {
                const one = known.get(name)
                return (
                  <tr key={name}>
                    <th scope="row">
                      {name}
                      {one?.refused.map((why) => (
                        <p class="trouble" key={why}>
                          {why}
                        </p>
                      ))}
                    </th>
                    <td>{one?.enabled ? 'yes' : one ? 'not for now' : 'no'}</td>
                    <td class="num">
                      {number(one?.notes ?? there.find((other) => other.namespace === name)?.count ?? 0)}
                    </td>
                    <td class="num">{one ? number(one.outbox) : '–'}</td>
                    <td class="num">{one ? number(one.to_pull) : '–'}</td>
                    <td>{one?.pushed_at ? ago(one.pushed_at) : '–'}</td>
                    <td>{one?.pulled_at ? ago(one.pulled_at) : '–'}</td>
                    <td>
                      <div class="bar">
                        {one?.enabled ? (
                          <button aria-label={`Disable ${name}`} onClick={() => tell('disable', name)}>
                            Disable
                          </button>
                        ) : (
                          <button aria-label={`Enable ${name}`} onClick={() => tell('enable', name)}>
                            Enable
                          </button>
                        )}
                        {one && (
                          <button aria-label={`Resync ${name}`} onClick={() => tell('resync', name)}>
                            Resync
                          </button>
                        )}
                        {one && (
                          <button
                            class="danger"
                            aria-label={`Clear state of ${name}`}
                            onClick={() => setClearing(name)}
                          >
                            Clear state
                          </button>
                        )}
                      </div>
                    </td>
                  </tr>
                )
              })}
            </tbody>
          </table>
        </div>
      ) : (
        <p class="empty">There are no notes yet. Enable a namespace that another computer has:</p>
      )}
      <form class="card bar" aria-label="Another namespace" onSubmit={add}>
        <label>
          Another namespace <input name="namespace" required maxLength={128} placeholder="default" />
        </label>
        <button>Enable</button>
      </form>
    </>
  )
}
