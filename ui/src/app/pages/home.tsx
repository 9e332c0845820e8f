import { useMemo } from 'preact/hooks'
import { Chart } from '../../shared/chart'
import { ago, number } from '../../shared/words'
import { get, tool } from '../api'
import { Awaited, useLoaded } from '../loading'
import { to } from '../router'

interface Analytics {
  totals: { memories: number; namespaces: number; embedded: number; unembedded: number }
  top_tags: { name: string; count: number }[]
  top_clients: { name: string; count: number }[]
  coverage: { hour: string; total: number; embedded: number }[]
  calls: { hour: string; calls: number; errors: number }[]
}

type Overview = Record<string, Record<string, number | string>>
export interface Slim {
  id: string
  title: string
  snippet: string
  namespace: string
  tags: string[]
  updated_at: string
}

export function Home() {
  const overview = useLoaded(() => get<Overview>('/api/overview'), [])
  const analytics = useLoaded(() => get<Analytics>('/api/mcp/memory/analytics?days=30'), [])
  const recent = useLoaded(() => tool<{ memories: Slim[] }>('memory_recent', { limit: 8 }), [])
  return (
    <>
      <h1>Home</h1>
      <Awaited of={overview}>{(all) => <Totals all={all} />}</Awaited>
      <Awaited of={analytics}>
        {(found) => (
          <div class="columns">
            <Over title="Embedding coverage" empty="Nothing yet. Notes are counted every hour." points={found.coverage} lines={{ total: 'notes', embedded: 'with a vector' }} link={<a href="/settings">Embedder</a>} />
            <Over title="Calls" empty="No calls yet. Connect a client on the page Keys." points={found.calls} lines={{ calls: 'calls', errors: 'errors' }} link={<a href="/sessions">Sessions</a>} />
            <Top title="Top tags" rows={found.top_tags} empty="No tags yet. Write #tag in a note." />
            <Top title="Top clients" rows={found.top_clients} empty="No client has written a note yet." />
          </div>
        )}
      </Awaited>
      <section class="card">
        <h2>Recent notes</h2>
        <Awaited of={recent}>
          {({ memories }) =>
            memories.length ? (
              <ul class="list">
                {memories.map((note) => (
                  <li key={note.id}>
                    <a href={to(['memories', 'note', note.id])}>{note.title}</a> <span class="mut">{note.namespace} · {ago(note.updated_at)}</span>
                  </li>
                ))}
              </ul>
            ) : (
              <p class="empty">Nothing is kept yet. <a href="/keys">Connect a client</a>, or <a href="/memories/new">write a note</a>.</p>
            )
          }
        </Awaited>
      </section>
    </>
  )
}

function Totals({ all }: { all: Overview }) {
  const count = (family: string, name: string) => all[family]?.[name]
  const shown: [string, number | string | undefined, string][] = [
    ['Notes', count('notes', 'notes'), to(['memories'], { family: 'notes' })],
    ['Namespaces', count('notes', 'namespaces'), to(['memories'], { family: 'notes' })],
    ['In the vault', count('vault', 'memories'), to(['memories'], { family: 'vault' })],
    ['In stores', count('stores', 'memories'), '/stores'],
    ['Entities', count('graph', 'entities'), '/graph'],
    ['Rows in portals', count('portals', 'rows'), '/portals'],
  ]
  return (
    <ul class="totals" aria-label="Totals">
      {shown.map(([name, value, address]) => (
        <li key={name}>
          <a href={address}><b>{typeof value === 'number' ? number(value) : '–'}</b> <span>{name}</span></a>
        </li>
      ))}
    </ul>
  )
}

type Points = Record<string, number | string>[]

function Over({ title, empty, points, lines, link }: { title: string; empty: string; points: unknown; lines: Record<string, string>; link: preact.VNode }) {
  const given = points as Points
  const [x, series] = useMemo(() => {
    const hours = given.map((point) => Date.parse(String(point.hour)) / 1000)
    return [hours, Object.entries(lines).map(([name, label]) => ({ label, values: given.map((point) => Number(point[name])), color: name === 'errors' ? '--bad' : undefined }))] as const
  }, [JSON.stringify(given)])
  return (
    <section class="card">
      <h2>{title} <span class="aside">{link}</span></h2>
      {given.length ? <Chart x={x as number[]} series={series as never} label={`${title} over time`} /> : <p class="empty">{empty}</p>}
    </section>
  )
}

function Top({ title, rows, empty }: { title: string; rows: { name: string; count: number }[]; empty: string }) {
  const most = Math.max(1, ...rows.map((row) => row.count))
  return (
    <section class="card">
      <h2>{title}</h2>
      {rows.length ? (
        <table class="bars" aria-label={title}>
          <tbody>
            {rows.slice(0, 10).map(({ name, count }) => (
              <tr key={name}>
                <th scope="row"><a href={to(['memories'], name === 'web-app' ? { source: 'ui' } : { tag: name })}>{name}</a></th>
                <td><span style={{ width: `${(100 * count) / most}%` }} /></td>
                <td class="num">{number(count)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      ) : (
        <p class="empty">{empty}</p>
      )}
    </section>
  )
}
