import { useState } from 'preact/hooks'
import type { Schemas, ToolResult } from '../../shared/api-types'
import { CopyText } from '../../shared/copy-text'
import { Confirm } from '../../shared/confirm'
import { showError, toast } from '../../shared/toast'
import { ago, errorMessage, number } from '../../shared/format'
import { get, post, tool } from '../api'
import { MEMORY_CHANGES } from '../changes'
import { Await, useResource, useMinuteTick } from '../resource'
import { Scroll } from '../../shared/scroll'

type Status = Schemas['SyncStatus']
type Action = 'enable' | 'disable' | 'resync' | 'clear-state'

const MESSAGES: Record<Action, (namespace: string) => string> = {
  enable: (name) => `${name} is synced from now on.`,
  disable: (name) => `${name} is not synced any more. Changes are kept until you enable it again.`,
  resync: (name) => `${name} is synced again as a whole.`,
  'clear-state': (name) => `The sync state of ${name} is deleted. Its notes stay.`,
}

export function Sync() {
  const status = useResource(() => get('/api/mcp/sync/status'), [], { topics: ['sync'], ...MEMORY_CHANGES })
  const namespaces = useResource(() => tool('memory_list_namespaces', {}), [], MEMORY_CHANGES)
  useMinuteTick()
  const [secret, setSecret] = useState<string | null>(null)
  const onLinked = (created: string | null) => {
    setSecret(created)
    status.reload()
  }
  return (
    <>
      <h1>Sync</h1>
      <p class="mut">The notes of a namespace, the same on several computers, through a hub of your own.</p>
      {secret && <SecretCard text={secret} close={() => setSecret(null)} />}
      <Await resource={status}>
        {(found) =>
          found.linked ? (
            <>
              <HubCard status={found} reload={status.reload} />
              <SetAsideCard records={found.set_aside} />
              <NamespaceTable status={found} local={namespaces.value?.namespaces ?? []} reload={status.reload} />
            </>
          ) : (
            <LinkForm onLinked={onLinked} />
          )
        }
      </Await>
    </>
  )
}

function LinkForm({ onLinked }: { onLinked: (secret: string | null) => void }) {
  const [error, setError] = useState('')
  const [isLinking, setLinking] = useState(false)
  const [encryption, setEncryption] = useState('none')
  async function link(event: SubmitEvent) {
    event.preventDefault()
    const form = Object.fromEntries(new FormData(event.currentTarget as HTMLFormElement)) as Record<string, string>
    setLinking(true)
    setError('')
    try {
      const linked = await post('/api/mcp/sync/link', {
        body: {
          url: form.url!.trim(),
          key: form.key!.trim(),
          encrypt: encryption === 'new',
          secret: encryption === 'other' ? form.secret!.trim() : null,
        },
      })
      onLinked(linked.secret)
    } catch (error) {
      setError(errorMessage(error))
    } finally {
      setLinking(false)
    }
  }
  return (
    <form class="card stack" aria-label="Link a hub" onSubmit={link}>
      <h2>Link a hub</h2>
      <p>
        On the computer of the hub, run <code>memory-mcp hub --port 8766 --data-dir ~/hub</code>, and create a key there
        with <code>memory-mcp keys create --name laptop --data-dir ~/hub</code>. Nothing is sent until you enable a
        namespace.
      </p>
      <label>
        Address <input name="url" type="url" required placeholder="as the hub prints it" />
      </label>
      <label>
        Key <input name="key" type="password" autocomplete="off" required placeholder="mmcp_…" />
      </label>
      <label>
        Encryption{' '}
        <select value={encryption} onChange={(event) => setEncryption(event.currentTarget.value)}>
          <option value="none">none: the hub can read the notes</option>
          <option value="new">with a new secret</option>
          <option value="other">with the secret of my other computers</option>
        </select>
      </label>
      {encryption === 'other' && (
        <label>
          Secret <input name="secret" type="password" autocomplete="off" required placeholder="mms_…" />
        </label>
      )}
      <p>
        <button class="primary" disabled={isLinking}>
          {isLinking ? 'Connecting…' : 'Link'}
        </button>
      </p>
      {error && (
        <p class="error" role="alert">
          {error}
        </p>
      )}
    </form>
  )
}

function SecretCard({ text, close }: { text: string; close: () => void }) {
  return (
    <section class="card once" aria-label="Your secret">
      <h2>The secret for your other computers</h2>
      <p class="warn">This is the only time you see it. The hub’s copy cannot be read without it.</p>
      <CopyText text={text} label="the secret" />
      <p>
        <button onClick={close}>I have stored it</button>
      </p>
    </section>
  )
}

function HubCard({ status, reload }: { status: Status; reload: () => void }) {
  const [isBusy, setBusy] = useState(false)
  const [isConfirming, setConfirming] = useState(false)
  async function sync() {
    setBusy(true)
    try {
      const { pushed, pulled, left } = await post('/api/mcp/sync/now')
      toast(`${number(pushed)} sent, ${number(pulled)} received${left ? `, ${number(left)} left` : ''}.`)
    } catch (error) {
      showError(error)
    } finally {
      setBusy(false)
      reload()
    }
  }
  async function unlink() {
    try {
      await post('/api/mcp/sync/unlink')
      reload()
    } catch (error) {
      showError(error)
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
          <dt>Up to date</dt>
          <dd>{status.synced_at ? ago(status.synced_at) : 'not yet'}</dd>
        </div>
      </dl>
      {status.error && (
        <p class="error" role="status">
          {status.error}
        </p>
      )}
      <p class="bar">
        {isConfirming && (
          <Confirm
            title="Unlink this hub?"
            text="Nothing is synced any more. Notes stay, here and at the hub; link it again to continue."
            cancelLabel="Keep it"
            confirmLabel="Unlink"
            onConfirm={() => void unlink()}
            onClose={() => setConfirming(false)}
          />
        )}
        <button class="primary" disabled={isBusy} onClick={sync}>
          {isBusy ? 'Syncing…' : 'Sync now'}
        </button>
        <button onClick={() => setConfirming(true)}>Unlink</button>
      </p>
    </section>
  )
}

/** Notes at the hub that this server could not store. */
function SetAsideCard({ records }: { records: Status['set_aside'] }) {
  if (!records.length) return null
  return (
    <section class="card" aria-label="Set aside">
      <h2>Set aside</h2>
      <p class="error">
        {records.length === 1 ? 'A note at the hub' : `${number(records.length)} notes at the hub`} could not be stored
        here. After an update of this program, Resync fetches {records.length === 1 ? 'it' : 'them'} again.
      </p>
      <ul>
        {records.map(({ id, reason }, index) => (
          <li key={index}>
            <code>{id || 'a record without an id'}</code> {reason}
          </li>
        ))}
      </ul>
    </section>
  )
}

interface TableProps {
  status: Status
  local: ToolResult<'memory_list_namespaces'>['namespaces']
  reload: () => void
}

function NamespaceTable({ status, local, reload }: TableProps) {
  const known = new Map(status.namespaces.map((item) => [item.namespace, item]))
  const names = [...new Set([...known.keys(), ...local.map((item) => item.namespace)])].sort()
  async function changeState(action: Action, namespace: string) {
    try {
      await post(`/api/mcp/sync/${action}`, { body: { namespace } })
      toast(MESSAGES[action](namespace), action === 'disable' ? { undo: () => changeState('enable', namespace) } : {})
    } catch (error) {
      showError(error)
    }
    reload()
  }
  const [clearing, setClearing] = useState<string | null>(null)
  async function add(event: SubmitEvent) {
    event.preventDefault()
    const form = event.currentTarget as HTMLFormElement
    await changeState('enable', (new FormData(form).get('namespace') as string).trim())
    form.reset()
  }
  return (
    <>
      {clearing !== null && (
        <Confirm
          title={`Clear the state of ${clearing}?`}
          text="Its sync state is deleted, and it is not synced any more. Its notes stay, here and at the hub."
          cancelLabel="Keep it"
          confirmLabel="Clear state"
          onConfirm={() => void changeState('clear-state', clearing)}
          onClose={() => setClearing(null)}
        />
      )}
      {names.length ? (
        <Scroll label="Namespaces">
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
                  To receive
                </th>
                <th scope="col">Last sent</th>
                <th scope="col">Last received</th>
                <th scope="col">
                  <span class="hidden">Actions</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {names.map((name) => {
                const synced = known.get(name)
                return (
                  <tr key={name}>
                    <th scope="row">
                      {name}
                      {synced?.refused.map((why) => (
                        <p class="error" key={why}>
                          {why}
                        </p>
                      ))}
                    </th>
                    <td>{synced?.enabled ? 'yes' : synced ? 'paused' : 'no'}</td>
                    <td class="num">
                      {number(synced?.notes ?? local.find((other) => other.namespace === name)?.count ?? 0)}
                    </td>
                    <td class="num">{synced ? number(synced.outbox) : '–'}</td>
                    <td class="num">{synced ? number(synced.to_pull) : '–'}</td>
                    <td>{synced?.pushed_at ? ago(synced.pushed_at) : '–'}</td>
                    <td>{synced?.pulled_at ? ago(synced.pulled_at) : '–'}</td>
                    <td>
                      <div class="bar">
                        {synced?.enabled ? (
                          <button aria-label={`Disable ${name}`} onClick={() => changeState('disable', name)}>
                            Disable
                          </button>
                        ) : (
                          <button aria-label={`Enable ${name}`} onClick={() => changeState('enable', name)}>
                            Enable
                          </button>
                        )}
                        {synced && (
                          <button aria-label={`Resync ${name}`} onClick={() => changeState('resync', name)}>
                            Resync
                          </button>
                        )}
                        {synced && (
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
        </Scroll>
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
