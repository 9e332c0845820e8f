import type { VNode } from 'preact'
import { useMemo, useState } from 'preact/hooks'
import { Chart } from '../../shared/chart'
import { number } from '../../shared/format'
import { get } from '../api'
import { MEMORY_CHANGES } from '../changes'
import { Await, useResource } from '../resource'
import { navigate, route, setQuery } from '../router'
import { href } from '../urls'
import { Attention } from './attention'
import { RecentWrites } from './recent-writes'

type Overview = Record<string, Record<string, number | string>>

const SECOND_MS = 1000
const HOUR_S = 3600

/** The ranges of the charts: label, days, and the step that values are summed by. */
const RANGES: Record<string, [label: string, days: number, by: 'hour' | 'day']> = {
  '24h': ['24 hours', 1, 'hour'],
  '7d': ['7 days', 7, 'hour'],
  '30d': ['30 days', 30, 'hour'],
  '90d': ['90 days', 90, 'day'],
  '1y': ['a year', 365, 'day'],
}
const DEFAULT_RANGE = '30d'
const WRITE_CHANGES = { ...MEMORY_CHANGES, topics: ['stores'] }

const RECENT_LIMIT = 30
const MAX_RECENT = 100

export function Home() {
  const overview = useResource(() => get('/api/overview'), [], WRITE_CHANGES)
  const [limit, setLimit] = useState(RECENT_LIMIT)
  const recent = useResource(() => get('/api/recent', { query: { limit, text: true } }), [limit], WRITE_CHANGES)
  const showEarlier = limit < MAX_RECENT && (recent.value?.writes.length ?? 0) >= limit
  const isNew = overview.value !== undefined && recent.value?.writes.length === 0 && !recent.value.incomplete.length
  return (
    <>
      <h1>Home</h1>
      <SearchBox />
      {isNew ? (
        <FirstSteps />
      ) : (
        <Await resource={recent}>
          {(found) => <RecentWrites {...found} showEarlier={showEarlier ? () => setLimit(MAX_RECENT) : undefined} />}
        </Await>
      )}
      {!isNew && <Attention />}
      {!isNew && <Await resource={overview}>{(found) => <Totals overview={found} />}</Await>}
      {!isNew && <Activity />}
    </>
  )
}

/** Enter leads to the hits. */
function SearchBox() {
  const submit = (event: SubmitEvent) => {
    event.preventDefault()
    const q = new FormData(event.currentTarget as HTMLFormElement).get('q')
    navigate(href(['memories'], { q: typeof q === 'string' ? q.trim() : '' }))
  }
  return (
    <form class="bar" role="search" onSubmit={submit}>
      <input
        data-search
        class="wide"
        type="search"
        name="q"
        aria-label="Search everything"
        placeholder="What do my agents know about …?"
      />
      <button class="primary">Search</button>
    </form>
  )
}

/** For the first day: nothing is stored. */
function FirstSteps() {
  return (
    <section class="card stack" aria-label="First steps">
      <h2>Nothing is stored yet</h2>
      <ol>
        <li>
          <a href="/keys">Connect a client</a>: make a key, and copy the lines for your client. What your agents learn
          then appears here.
        </li>
        <li>
          <a href="/import">Import what you have</a>: a folder of markdown, an Obsidian vault, an export of ChatGPT or
          Claude.
        </li>
        <li>
          <a href="/memories/new">Write a note</a> yourself.
        </li>
      </ol>
    </section>
  )
}

/** Numbers over time. */
function Activity() {
  const requested = route.value.query.range ?? DEFAULT_RANGE
  const range = Object.hasOwn(RANGES, requested) ? requested : DEFAULT_RANGE
  const [rangeLabel, days, by] = RANGES[range]!
  const analytics = useResource(() => get('/api/mcp/memory/analytics', { query: { days, by } }), [days])
  return (
    <Await resource={analytics}>
      {(found) => (
        <>
          <RangeChoice range={range} />
          <div class="columns">
            <TopList title="Top tags" filter="tag" rows={found.top_tags} empty="No tags yet. Write #tag in a note." />
            <TopList
              title="Top clients"
              filter="client"
              rows={found.top_clients}
              empty="No client has written a note yet."
            />
            <TimeChart
              title="Calls of clients"
              rangeLabel={rangeLabel}
              days={days}
              empty="No calls in this range. Connect a client on the page Connect."
              points={found.calls}
              lines={{ calls: 'calls', errors: 'errors' }}
              link={<a href="/sessions">Sessions</a>}
            />
            <TimeChart
              title="Found by meaning"
              rangeLabel={rangeLabel}
              days={days}
              empty="Nothing in this range. Notes are counted every hour."
              points={found.coverage}
              lines={{ total: 'notes', embedded: 'found by meaning, not only by words' }}
              link={<a href="/settings">Settings</a>}
            />
          </div>
        </>
      )}
    </Await>
  )
}

function RangeChoice({ range }: { range: string }) {
  return (
    <div class="bar">
      <div role="group" aria-label="How far back" class="choice wrap">
        {Object.entries(RANGES).map(([name, [shown]]) => (
          <button
            key={name}
            aria-pressed={name === range}
            onClick={() => setQuery({ range: name === DEFAULT_RANGE ? '' : name })}
          >
            {shown}
          </button>
        ))}
      </div>
    </div>
  )
}

function Totals({ overview }: { overview: Overview }) {
  const count = (family: string, name: string) => overview[family]?.[name]
  const shown: [string, number | string | undefined, string][] = [
    ['Notes', count('notes', 'notes'), href(['memories'], { family: 'notes' })],
    ['Namespaces', count('notes', 'namespaces'), href(['memories'], { family: 'notes', filters: '1' })],
    ['Facts', count('vault', 'memories'), href(['memories'], { family: 'vault' })],
    ['Files', count('stores', 'memories'), '/stores'],
    ['Entities', count('graph', 'entities'), '/graph'],
    ['Rows in tables', count('portals', 'rows'), '/portals'],
  ]
  return (
    <ul class="totals" aria-label="Totals">
      {shown.map(([name, value, url]) => (
        <li key={name}>
          <a href={url}>
            <b>{typeof value === 'number' ? number(value) : '–'}</b> <span>{name}</span>
          </a>
        </li>
      ))}
    </ul>
  )
}

interface TimeChartProps {
  title: string
  rangeLabel: string
  days: number
  empty: string
  points: { hour: string }[]
  lines: Record<string, string> // labels by the names of fields of the points
  link: VNode
}

function TimeChart({ title, rangeLabel, days, empty, points, lines, link }: TimeChartProps) {
  const [x, series] = useMemo(() => {
    const hours = points.map(({ hour }) => Date.parse(hour) / SECOND_MS)
    const values = (name: string) => points.map((point) => Number((point as Record<string, unknown>)[name]))
    const colors: Record<string, string> = { errors: '--bad' }
    return [hours, Object.entries(lines).map(([name, label]) => ({ label, values: values(name), color: colors[name] }))]
  }, [JSON.stringify(points)])
  const now = Math.ceil(Date.now() / (HOUR_S * SECOND_MS)) * HOUR_S
  return (
    <section class="card">
      <h2>
        {title} <span class="aside">{link}</span>
      </h2>
      {points.length ? (
        <Chart
          x={x}
          series={series}
          isLocal
          timeRange={[now - days * 24 * HOUR_S, now]}
          label={`${title} over ${rangeLabel}`}
        />
      ) : (
        <p class="empty">{empty}</p>
      )}
    </section>
  )
}

interface TopListProps {
  title: string
  filter: 'tag' | 'client'
  rows: { name: string; count: number }[]
  empty: string
}

function TopList({ title, filter, rows, empty }: TopListProps) {
  const maximum = Math.max(1, ...rows.map((row) => row.count))
  return (
    <section class="card">
      <h2>{title}</h2>
      {rows.length ? (
        <table class="bars" aria-label={title}>
          <tbody>
            {rows.slice(0, 10).map(({ name, count }) => {
              const listHref = href(['memories'], { [filter]: name })
              return (
                <tr key={name}>
                  <th scope="row">
                    <a href={listHref}>{name}</a>
                  </th>
                  <td>
                    <span style={{ width: `${(100 * count) / maximum}%` }} />
                  </td>
                  <td class="num">
                    <a class="quiet" href={listHref} aria-label={`${number(count)} of ${name}`}>
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
