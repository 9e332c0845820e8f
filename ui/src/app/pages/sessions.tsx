import type { Schemas } from '../../shared/api-types'
import { showError, toast } from '../../shared/toast'
import { ago, number } from '../../shared/format'
import { get, remove } from '../api'
import { Await, useResource, useMinuteTick } from '../resource'
import { Scroll } from '../../shared/scroll'

type Session = Schemas['SessionShown']

const SESSION_CHANGES = { topics: ['clients', 'keys'] }

export function Sessions() {
  const sessions = useResource(() => get('/api/mcp/sessions'), [], SESSION_CHANGES)
  useMinuteTick()
  async function disconnect(session: Session) {
    try {
      await remove('/api/mcp/sessions/{session_id}', { path: { session_id: session.id } })
      toast(`${session.client || 'The client'} is disconnected. It can connect again unless its key is revoked.`)
      sessions.reload()
    } catch (error) {
      showError(error)
    }
  }
  return (
    <>
      <h1>Sessions</h1>
      <Await resource={sessions}>
        {({ sessions: found }) =>
          found.length ? (
            <Scroll label="Connected clients">
              <table>
                <thead>
                  <tr>
                    <th scope="col">Client</th>
                    <th scope="col">Transport</th>
                    <th scope="col">Key</th>
                    <th scope="col">Address</th>
                    <th scope="col">Since</th>
                    <th scope="col">Last call</th>
                    <th scope="col" class="num">
                      Calls
                    </th>
                    <th scope="col">
                      <span class="hidden">Disconnect</span>
                    </th>
                  </tr>
                </thead>
                <tbody>
                  {found.map((session) => (
                    <tr key={session.id}>
                      <th scope="row">
                        {session.client || 'unnamed'} <span class="mut">{session.version}</span>
                      </th>
                      <td>
                        {session.transport} <span class="mut">{session.protocol_version}</span>
                      </td>
                      <td>{session.key_name ?? '–'}</td>
                      <td>{session.ip ?? '–'}</td>
                      <td>{ago(session.started_at)}</td>
                      <td>{ago(session.last_call_at)}</td>
                      <td class="num">{number(session.calls)}</td>
                      <td>
                        <button
                          class="danger"
                          aria-label={`Disconnect ${session.client || session.id}`}
                          onClick={() => disconnect(session)}
                        >
                          Disconnect
                        </button>
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </Scroll>
          ) : (
            <p class="empty">
              No client is connected. <a href="/keys">Connect one</a>.
            </p>
          )
        }
      </Await>
    </>
  )
}
