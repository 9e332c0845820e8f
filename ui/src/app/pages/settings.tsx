import { useEffect, useRef, useState } from 'preact/hooks'
import { Confirm } from '../../shared/confirm'
import { discardAll } from '../../shared/draft'
import { showError, toast } from '../../shared/toast'
import { ago, bytes, number, plural } from '../../shared/format'
import { download, get, post } from '../api'
import { saveFile } from '../bridge'
import { MEMORY_CHANGES } from '../changes'
import { Await, clearCache, useResource } from '../resource'
import { chosenTheme, setTheme, THEMES } from '../theme'

const VECTOR_CHANGES = { ...MEMORY_CHANGES, topics: ['vectors'] }
const AUDIT_CHANGES = { ...MEMORY_CHANGES, topics: ['keys', 'stores'] }

export function Settings() {
  const me = useResource(() => get('/api/me'), [], {})
  async function signOut() {
    try {
      await post('/api/sign-out')
      discardAll()
      clearCache()
      location.assign('/')
    } catch (error) {
      showError(error)
    }
  }
  return (
    <>
      <h1>Settings</h1>
      <section class="card bar">
        <h2>You</h2>
        <Await resource={me}>
          {(user) => (
            <span>
              Signed in as <b>{user.name}</b>, plan {user.plan}
            </span>
          )}
        </Await>
        <span class="space" />
        <button onClick={signOut}>Sign out</button>
      </section>
      <section class="card bar">
        <h2>Appearance</h2>
        <div role="group" aria-label="Theme" class="choice">
          {THEMES.map((theme) => (
            <button key={theme} aria-pressed={chosenTheme.value === theme} onClick={() => setTheme(theme)}>
              {theme}
            </button>
          ))}
        </div>
      </section>
      <EmbedderCard />
      <DownloadsCard canBackUp={me.value?.may_back_up ?? false} />
      <AuditLog />
    </>
  )
}

const NOTES_PER_MINUTE = [300, 6000] as const // short notes: a service or an old computer, and the built-in model

/** How long a rebuild takes, and what happens meanwhile. */
function rebuildText(count: number): string {
  const [slow, fast] = NOTES_PER_MINUTE.map((rate) => Math.ceil(count / rate)) as [number, number]
  const time = slow === 1 ? 'This takes up to a minute' : `This takes about ${fast} to ${plural(slow, 'minute')}`
  return `${time}, in the background, longer for long notes. Until then a note is found by its old vector.`
}

function EmbedderCard() {
  const resource = useResource(() => get('/api/mcp/memory/embed-stats'), [], VECTOR_CHANGES)
  const [isConfirming, setConfirming] = useState(false)
  async function reindex() {
    try {
      const { queued } = await post('/api/mcp/memory/reindex')
      toast(`The vectors of ${plural(queued, 'note')} are being rebuilt`)
    } catch (error) {
      showError(error)
    }
  }
  return (
    <section class="card">
      <h2>Embedder</h2>
      <Await resource={resource}>
        {(stats) => (
          <>
            <p>
              {stats.enabled ? (
                <>
                  Notes are found by meaning, with <b>{stats.backend_name ?? 'a model that is not loaded yet'}</b>
                  {stats.backend_dim ? ` (${stats.backend_dim} dimensions)` : ''}.
                </>
              ) : (
                <>
                  Notes are found by words only. <code>memory-mcp models pull</code> downloads the built-in embedder.
                </>
              )}
            </p>
            <p>
              <label>
                {number(stats.total_with_embedding)} of {number(stats.total)} notes have their vector
                {stats.queue_size ? `; ${number(stats.queue_size)} are queued` : ''}{' '}
                <progress max={Math.max(1, stats.total)} value={stats.total_with_embedding} />
              </label>
            </p>
            <button disabled={!stats.enabled || !stats.total} onClick={() => setConfirming(true)}>
              Rebuild all vectors
            </button>
            {isConfirming && (
              <Confirm
                title={`Rebuild the vectors of ${plural(stats.total, 'note')}?`}
                text={rebuildText(stats.total)}
                cancelLabel="Keep them"
                confirmLabel="Rebuild"
                onConfirm={reindex}
                onClose={() => setConfirming(false)}
              />
            )}
          </>
        )}
      </Await>
    </section>
  )
}

/** Leaving the page cancels a download, on the server too. */
type Kind = 'export' | 'backup'

function DownloadsCard({ canBackUp }: { canBackUp: boolean }) {
  const [pending, setPending] = useState<Kind | null>(null)
  const controller = useRef<AbortController | null>(null)
  useEffect(() => () => controller.current?.abort(), [])
  async function downloadFile(kind: Kind) {
    const current = new AbortController()
    controller.current = current
    setPending(kind)
    try {
      const { name, file, omittedCount } = await download(`/api/${kind}`, current.signal)
      saveFile(name, file)
      const size = bytes(file.size)
      if (omittedCount) {
        showError(`${name} (${size}) lacks ${plural(omittedCount, 'item')} that could not be read. It lists them.`)
      } else toast(`${name} is downloaded (${size})`)
    } catch (error) {
      if (current.signal.aborted) toast('Cancelled. Nothing was saved.')
      else showError(error)
    }
    setPending(null)
  }
  return (
    <section class="card downloads">
      <h2>Downloads</h2>
      <p>
        All your memories as markdown, JSON lines, Parquet and CSV in one zip.{' '}
        <code>memory-mcp import memory-mcp FILE</code> imports it, here or elsewhere.
      </p>
      <div class="bar">
        <button disabled={pending !== null} onClick={() => downloadFile('export')}>
          Download my memories
        </button>
      </div>
      {canBackUp && (
        <>
          <p>
            A backup of the whole server: the memories of every user, with former versions and the hashes of keys and
            passwords. Keep it safe. <code>memory-mcp restore FILE</code> restores it.
          </p>
          <div class="bar">
            <button disabled={pending !== null} onClick={() => downloadFile('backup')}>
              Download a backup of everything
            </button>
          </div>
        </>
      )}
      <p role="status">
        {pending && (
          <>
            <progress aria-label="Creating the file" />{' '}
            {pending === 'backup' ? 'Creating the backup…' : 'Packing your memories…'}{' '}
            <button class="link" onClick={() => controller.current?.abort()}>
              Cancel
            </button>
          </>
        )}
      </p>
    </section>
  )
}

function AuditLog() {
  const log = useResource(() => get('/api/mcp/audit', { query: { limit: 50 } }), [], AUDIT_CHANGES)
  return (
    <section class="card">
      <h2>Audit log</h2>
      <Await resource={log}>
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
            <p class="empty">Nothing yet. Keys, sign-ins and deletions are listed here.</p>
          )
        }
      </Await>
    </section>
  )
}
