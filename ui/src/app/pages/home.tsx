import { useMemo } from 'preact/hooks'
import { Chart } from '../../shared/chart'
import { ago, number } from '../../shared/words'
import { get } from '../api'
import { MEMORIES } from '../live'
import { Awaited, useLoaded } from '../loading'
import { address, type Write } from '../refs'
import { to, turn, where } from '../router'

interface Analytics {
  totals: { memories: number; namespaces: number; embedded: number; unembedded: number }
  top_tags: { name: string; count: number }[]
  top_clients: { name: string; count: number }[]
  coverage: { hour: string; total: number; embedded: number }[]
  calls: { hour: string; calls: number; errors: number }[]
}

type Overview = Record<string, Record<string, number | string>>

/** How far back charts go. Over months, the hours of a day are put together. */
const RANGES: Record<string, [string, number, string]> = {
  '24h': ['24 hours', 1, 'hour'],
  '7d': ['7 days', 7, 'hour'],
  '30d': ['30 days', 30, 'hour'],
  '90d': ['90 days', 90, 'day'],
  '1y': ['a year', 365, 'day'],
}
const USUAL = '30d'
const WRITES = { ...MEMORIES, topics: ['stores'] }

export function Home() {
  const asked = where.value.query.range ?? USUAL
  const range = asked in RANGES ? asked : USUAL
  const [words, days, by] = RANGES[range]!
  const overview = useLoaded(() => get<Overview>('/api/overview'), [], WRITES)
  const analytics = useLoaded(() => get<Analytics>(`/api/mcp/memory/analytics?days=${days}&by=${by}`), [days])
  const recent = useLoaded(
    () => get<{ writes: Write[]; incomplete: { family: string; error: string }[] }>('/api/recent?limit=12'),
    [],
    WRITES,
  )
  return (
    <>
      <h1>Home</h1>
      <Awaited of={overview}>{(all) => <Totals all={all} />}</Awaited>
      <div class="bar">
        <div role="group" aria-label="How far back" class="choice wrap">
          {Object.entries(RANGES).map(([name, [shown]]) => (
            <button
              key={name}
              aria-pressed={name === range}
              onClick={() => turn({ range: name === USUAL ? '' : name })}
            >
              {shown}
            </button>
          ))}
        </div>
      </div>
      <Awaited of={analytics}>
        {(found) => (
          <div class="columns">
            <Over
              title="Embedding coverage"
              over={words}
              days={days}
              empty="Nothing in this time. Notes are counted every hour."
              points={found.coverage}
              lines={{ total: 'notes', embedded: 'with a vector' }}
              link={<a href="/settings">Embedder</a>}
            />
            <Over
              title="Calls"
              over={words}
              days={days}
              empty="No calls in this time. Connect a client on the page Keys."
              points={found.calls}
              lines={{ calls: 'calls', errors: 'errors' }}
              link={<a href="/sessions">Sessions</a>}
            />
            <Top title="Top tags" rows={found.top_tags} empty="No tags yet. Write #tag in a note." />
            <Top title="Top clients" rows={found.top_clients} empty="No client has written a note yet." />
          </div>
        )}
      </Awaited>
      <section class="card">
        <h2>Recent writes</h2>
        <Awaited of={recent}>
          {({ writes, incomplete }) =>
            writes.length || incomplete.length ? (
              <>
                <ul class="list" aria-label="Recent writes">
                  {writes.map((one) => (
                    <li key={one.ref}>
                      <a href={address(one.ref)}>{one.title}</a>{' '}
                      <span class="mut">
                        <a class="quiet" href={to(['memories'], { family: one.family })}>
                          {one.family}
                        </a>{' '}
                        · {ago(one.at)}
                      </span>
                    </li>
                  ))}
                </ul>
                {incomplete.map((one) => (
                  <p class="mut" key={one.family}>
                    {one.family}: {one.error}
                  </p>
                ))}
              </>
            ) : (
              <p class="empty">
                Nothing is kept yet. <a href="/keys">Connect a client</a>, or <a href="/memories/new">write a note</a>.
              </p>
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
    ['Namespaces', count('notes', 'namespaces'), to(['memories'], { family: 'notes', filters: '1' })],
    ['In the vault', count('vault', 'memories'), to(['memories'], { family: 'vault' })],
    ['In stores', count('stores', 'memories'), '/stores'],
    ['Entities', count('graph', 'entities'), '/graph'],
    ['Rows in portals', count('portals', 'rows'), '/portals'],
  ]
  return (
    <ul class="totals" aria-label="Totals">
      {shown.map(([name, value, address]) => (
        <li key={name}>
          <a href={address}>
            <b>{typeof value === 'number' ? number(value) : '–'}</b> <span>{name}</span>
          </a>
        </li>
      ))}
    </ul>
  )
}

type Points = Record<string, number | string>[]

function Over({
  title,
  over,
  days,
  empty,
  points,
  lines,
  link,
}: {
  title: string
  over: string
  days: number
  empty: string
  points: unknown
  lines: Record<string, string>
  link: preact.VNode
}) {
  const given = points as Points
  const [x, series] = useMemo(() => {
    const hours = given.map((point) => Date.parse(String(point.hour)) / 1000)
    return [
      hours,
      Object.entries(lines).map(([name, label]) => ({
        label,
        values: given.map((point) => Number(point[name])),
        color: name === 'errors' ? '--bad' : undefined,
      })),
    ] as const
  }, [JSON.stringify(given)])
  const now = Math.ceil(Date.now() / 3_600_000) * 3600
  return (
    <section class="card">
      <h2>
        {title} <span class="aside">{link}</span>
      </h2>
      {given.length ? (
        <Chart x={x} series={series} span={[now - days * 86_400, now]} label={`${title} over ${over}`} />
      ) : (
        <p class="empty">{empty}</p>
      )}
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
            {rows.slice(0, 10).map(({ name, count }) => {
              const list = to(['memories'], name === 'web-app' ? { source: 'ui' } : { tag: name })
              return (
                <tr key={name}>
                  <th scope="row">
                    <a href={list}>{name}</a>
                  </th>
                  <td>
                    <span style={{ width: `${(100 * count) / most}%` }} />
                  </td>
                  <td class="num">
                    <a class="quiet" href={list} aria-label={`${number(count)} of ${name}`}>
                      {number(count)}
                    </a>
                  </td>
                </tr>
              )
            })}
          </tbody>
        </table>
      ) : (
        <p class="empty">{empty}</p>
      )}
    </section>
  )
}
