import { useRef, useState } from 'preact/hooks'
import { Confirm } from '../../shared/confirm'
import { discardAll } from '../../shared/draft'
import { showError, toast } from '../../shared/toast'
import { ago, number, plural } from '../../shared/format'
import { get, post } from '../api'
import { auditLines } from '../audit-lines'
import { MEMORY_CHANGES } from '../changes'
import { Await, clearCache, useResource } from '../resource'
import { chosenTheme, setTheme, THEMES } from '../theme'
import { Scroll } from '../../shared/scroll'
import { startOf, timeLeft, type Progress } from '../../shared/time-left'

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
  const first = useRef<Progress | null>(null)
  function queuedText(waiting: number): string {
    const now = { at: Date.now(), waiting }
    first.current = startOf(first.current, now)
    const left = timeLeft(first.current, now)
    return `; ${number(waiting)} are queued${left && `, ${left}`}`
  }
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
                {stats.queue_size ? queuedText(stats.queue_size) : ''}{' '}
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

function AuditLog() {
  const log = useResource(() => get('/api/mcp/audit', { query: { limit: 200 } }), [], AUDIT_CHANGES)
  return (
    <section class="card">
      <h2>Audit log</h2>
      <Await resource={log}>
        {({ entries }) =>
          entries.length ? (
            <Scroll label="Audit log">
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
                  {auditLines(entries).map(({ entry, sentence, count }) => (
                    <tr key={entry.id}>
                      <td title={entry.at}>{ago(entry.at)}</td>
                      <td>
                        {sentence}
                        {count > 1 && `, ${number(count)} times`}
                      </td>
                      <td>{entry.client || '–'}</td>
                      <td>{entry.ip ?? '–'}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </Scroll>
          ) : (
            <p class="empty">Nothing yet. Keys, sign-ins and deletions are listed here.</p>
          )
        }
      </Await>
    </section>
  )
}
