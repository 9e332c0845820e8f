import { useEffect, useRef, useState } from 'preact/hooks'
import { forgetAll } from '../../shared/draft'
import { failed, toast } from '../../shared/toast'
import { ago, bytes, number, plural } from '../../shared/words'
import { download, get, post } from '../api'
import { save } from '../bridge'
import { MEMORIES } from '../live'
import { Awaited, useLoaded } from '../loading'
import { chosen, choose, THEMES } from '../theme'

interface Embedder {
  queue_size: number
  total: number
  total_with_embedding: number
  backend_name: string | null
  backend_dim: number | null
  enabled: boolean
}

interface Entry {
  id: number
  at: string
  action: string
  client: string
  ip: string | null
}

interface Me {
  name: string
  plan: string
  may_back_up: boolean
}

export function Settings() {
  const me = useLoaded(() => get<Me>('/api/me'), [], {})
  async function signOut() {
    try {
      await post('/api/sign-out')
      forgetAll()
      location.assign('/')
    } catch (error) {
      failed(error)
    }
  }
  return (
    <>
      <h1>Settings</h1>
      <section class="card bar">
        <h2>You</h2>
        <Awaited of={me}>
          {(person) => (
            <span>
              Signed in as <b>{person.name}</b>, plan {person.plan}
            </span>
          )}
        </Awaited>
        <span class="space" />
        <button onClick={signOut}>Sign out</button>
      </section>
      <section class="card bar">
        <h2>Looks</h2>
        <div role="group" aria-label="Theme" class="choice">
          {THEMES.map((theme) => (
            <button key={theme} aria-pressed={chosen.value === theme} onClick={() => choose(theme)}>
              {theme}
            </button>
          ))}
        </div>
      </section>
      <Embedding />
      <Downloads mayBackUp={me.value?.may_back_up ?? false} />
      <Audit />
    </>
  )
}

function Embedding() {
  const stats = useLoaded(() => get<Embedder>('/api/mcp/memory/embed-stats'), [], { ...MEMORIES, topics: ['vectors'] })
  async function reindex() {
    try {
      const { queued } = await post<{ queued: number }>('/api/mcp/memory/reindex')
      toast(`${number(queued)} notes get their vector anew`)
    } catch (error) {
      failed(error)
    }
  }
  return (
    <section class="card">
      <h2>Embedder</h2>
      <Awaited of={stats}>
        {(now) => (
          <>
            <p>
              {now.enabled ? (
                <>
                  Notes are found by meaning, with <b>{now.backend_name ?? 'a model that is not loaded yet'}</b>
                  {now.backend_dim ? ` (${now.backend_dim} dimensions)` : ''}.
                </>
              ) : (
                <>
                  Notes are found by words only. <code>memory-mcp models pull</code> gets the built-in embedder.
                </>
              )}
            </p>
            <p>
              <label>
                {number(now.total_with_embedding)} of {number(now.total)} notes have their vector
                {now.queue_size ? `; ${number(now.queue_size)} wait` : ''}{' '}
                <progress max={Math.max(1, now.total)} value={now.total_with_embedding} />
              </label>
            </p>
            <button disabled={!now.enabled || !now.total} onClick={reindex}>
              Make all vectors anew
            </button>
          </>
        )}
      </Awaited>
    </section>
  )
}

/** Everything as a file. Leaving the page ends it, on the server too. */
function Downloads({ mayBackUp }: { mayBackUp: boolean }) {
  const [making, setMaking] = useState<string | null>(null)
  const leaving = useRef<AbortController | null>(null)
  useEffect(() => () => leaving.current?.abort(), [])
  async function fetchFile(what: string) {
    const stopping = (leaving.current = new AbortController())
    setMaking(what)
    try {
      const { name, file, leftOut } = await download(`/api/${what}`, stopping.signal)
      save(name, file)
      if (leftOut)
        failed(`${name} (${bytes(file.size)}) lacks ${plural(leftOut, 'thing')} that could not be read. It says which.`)
      else toast(`${name} is downloaded (${bytes(file.size)})`)
    } catch (error) {
      if (stopping.signal.aborted) toast('Cancelled. Nothing was kept.')
      else failed(error)
    }
    setMaking(null)
  }
  return (
    <section class="card downloads">
      <h2>Take it along</h2>
      <p>
        All that you keep, as markdown, JSON lines, Parquet and CSV in one zip.{' '}
        <code>memory-mcp import memory-mcp FILE</code> takes it in again, here or elsewhere.
      </p>
      <div class="bar">
        <button disabled={making !== null} onClick={() => fetchFile('export')}>
          Download my memories
        </button>
      </div>
      {mayBackUp && (
        <>
          <p>
            A backup of the whole server: of every user, with former versions and the hashes of keys and passwords. Keep
            it safe. <code>memory-mcp restore FILE</code> puts it in place.
          </p>
          <div class="bar">
            <button disabled={making !== null} onClick={() => fetchFile('backup')}>
              Download a backup of everything
            </button>
          </div>
        </>
      )}
      <p role="status">
        {making && (
          <>
            <progress aria-label="Making the file" />{' '}
            {making === 'backup' ? 'The backup is being made…' : 'Your memories are being packed…'}{' '}
            <button class="link" onClick={() => leaving.current?.abort()}>
              Cancel
            </button>
          </>
        )}
      </p>
    </section>
  )
}

function Audit() {
  const log = useLoaded(() => get<{ entries: Entry[] }>('/api/mcp/audit?limit=50'), [], {
    ...MEMORIES,
    topics: ['keys', 'stores'],
  })
  return (
    <section class="card">
      <h2>What happened</h2>
      <Awaited of={log}>
        {({ entries }) =>
          entries.length ? (
            <div class="scroll" tabIndex={0} role="region" aria-label="Audit log">
              <table>
                <thead>
                  <tr>
                    <th scope="col">When</th>
                    <th scope="col">What</th>
                    <th scope="col">Client</th>
                    <th scope="col">Address</th>
                  </tr>
                </thead>
                <tbody>
                  {entries.map((entry) => (
                    <tr key={entry.id}>
                      <td title={entry.at}>{ago(entry.at)}</td>
                      <td>{entry.action}</td>
                      <td>{entry.client || '–'}</td>
                      <td>{entry.ip ?? '–'}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          ) : (
            <p class="empty">Nothing yet. Keys, sign-ins and deletions are written down here.</p>
          )
        }
      </Awaited>
    </section>
  )
}
