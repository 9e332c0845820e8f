import { failed, toast } from '../../shared/toast'
import { ago, number } from '../../shared/words'
import { get, remove } from '../api'
import { Awaited, useLoaded, useMinutes } from '../loading'

interface Session {
  id: string
  client: string
  version: string
  ip: string | null
  transport: string
  protocol_version: string
  key_name: string | null
  started_at: string
  last_call_at: string
  calls: number
}

export function Sessions() {
  const sessions = useLoaded(() => get<{ sessions: Session[] }>('/api/mcp/sessions'), [], {
    topics: ['clients', 'keys'],
  })
  useMinutes()
  async function disconnect(session: Session) {
    try {
      await remove(`/api/mcp/sessions/${session.id}`)
      toast(`${session.client || 'The client'} is disconnected. It may come back, unless its key is revoked.`)
      sessions.again()
    } catch (error) {
      failed(error)
    }
  }
  return (
    <>
      <h1>Sessions</h1>
      <Awaited of={sessions}>
        {({ sessions: found }) =>
          found.length ? (
            <div class="scroll" tabIndex={0} role="region" aria-label="Connected clients">
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
                  {found.map((one) => (
                    <tr key={one.id}>
                      <th scope="row">
                        {one.client || 'without a name'} <span class="mut">{one.version}</span>
                      </th>
                      <td>
                        {one.transport} <span class="mut">{one.protocol_version}</span>
                      </td>
                      <td>{one.key_name ?? '–'}</td>
                      <td>{one.ip ?? '–'}</td>
                      <td>{ago(one.started_at)}</td>
                      <td>{ago(one.last_call_at)}</td>
                      <td class="num">{number(one.calls)}</td>
                      <td>
                        <button
                          class="danger"
                          aria-label={`Disconnect ${one.client || one.id}`}
                          onClick={() => disconnect(one)}
                        >
                          Disconnect
                        </button>
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          ) : (
            <p class="empty">
              No client is connected. <a href="/keys">Connect one</a>.
            </p>
          )
        }
      </Awaited>
    </>
  )
}
