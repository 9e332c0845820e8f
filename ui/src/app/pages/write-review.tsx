// Who wrote what, and undoing it as a group: with a preview, and the undo can be taken back.
import { useState } from 'preact/hooks'
import type { Schemas } from '../../shared/api-types'
import { number, plural, shortTime } from '../../shared/format'
import { get } from '../api'
import { MEMORY_CHANGES } from '../changes'
import { familyLabel, kindLabel } from '../families'
import { refHref } from '../refs'
import { Await, useResource } from '../resource'
import { route, setQuery } from '../router'
import { href } from '../urls'
import { dayLabel } from '../writes'
import { UndoDialog, type ChosenWrites } from './undo-writes'
import { Scroll } from '../../shared/scroll'

type Group = Schemas['JournalGroup']
type Entry = Schemas['JournalEntry']

const SOURCES = { mcp: 'a client', ui: 'web app', cli: 'command line', import: 'import', hook: 'hook', sync: 'sync' }
const FAMILIES = ['vault', 'notes', 'stores', 'graph', 'portals'] as const
const FIELDS = ['client', 'key', 'source', 'family', 'since', 'until', 'unnamed', 'keyless', 'undo_id'] as const
const SHOWN = 200

const DAY_MS = 24 * 3600 * 1000

const startOf = (day: string) => new Date(`${day}T00:00:00Z`).toISOString()
const endOf = (day: string) => new Date(Date.parse(`${day}T00:00:00Z`) + DAY_MS).toISOString()

/** A filter of the address, as the API takes it. Days are days in UTC, and the last one is included. */
function asBody(query: Record<string, string | undefined>): ChosenWrites {
  const given = Object.fromEntries(FIELDS.flatMap((name) => (query[name] ? [[name, query[name]]] : [])))
  const { since, until, unnamed, keyless, ...texts }: Record<string, string | undefined> = given
  return {
    ...texts,
    ...(since && { since: startOf(since) }),
    ...(until && { until: endOf(until) }),
    ...(unnamed && { unnamed: true }),
    ...(keyless && { keyless: true }),
  }
}

/** The writes of one writer on one day. */
const ofGroup = (group: Group): Record<string, string | undefined> => ({
  client: group.client || undefined,
  unnamed: group.client ? undefined : '1',
  key: group.key_id ?? undefined,
  keyless: group.key_id ? undefined : '1',
  source: group.source,
  since: group.day,
  until: group.day,
})

export default function WriteReview() {
  const wanted = asBody(route.value.query)
  const isChosen = Object.keys(wanted).length > 0
  return (
    <>
      <h1>Who wrote what</h1>
      <p class="mut">
        Every write to facts, notes, files, graphs and tables, and who made it. Choose the writes of a client, a key or
        a time to undo them together. What others changed later is left alone.
      </p>
      <Filters />
      {isChosen ? <Writes wanted={wanted} /> : <Groups />}
    </>
  )
}

function Filters() {
  const { client = '', key = '', source = '', family = '', since = '', until = '' } = route.value.query
  const set = (name: string) => (event: { currentTarget: { value: string } }) =>
    setQuery({ [name]: event.currentTarget.value.trim(), unnamed: '', keyless: '', undo_id: '' })
  return (
    <form class="bar" role="search" aria-label="Filter" onSubmit={(event) => event.preventDefault()}>
      <label>
        Client <input value={client} onChange={set('client')} maxLength={1000} />
      </label>
      <label>
        Key <input value={key} onChange={set('key')} maxLength={1000} />
      </label>
      <label>
        Source{' '}
        <select value={source} onChange={set('source')}>
          <option value="">all</option>
          {Object.entries(SOURCES).map(([name, label]) => (
            <option key={name} value={name}>
              {label}
            </option>
          ))}
        </select>
      </label>
      <label>
        Kind{' '}
        <select value={family} onChange={set('family')}>
          <option value="">all</option>
          {FAMILIES.map((name) => (
            <option key={name} value={name}>
              {kindLabel(name)}
            </option>
          ))}
        </select>
      </label>
      <label>
        Since <input type="date" value={since} onChange={set('since')} />
      </label>
      <label>
        Until <input type="date" value={until} onChange={set('until')} />
      </label>
    </form>
  )
}

function Groups() {
  const found = useResource(() => get('/api/journal/groups', { query: {} }), [], MEMORY_CHANGES, 'journal-groups')
  const [undoing, setUndoing] = useState<Group | null>(null)
  return (
    <Await resource={found}>
      {({ groups, incomplete }) => (
        <>
          {groups.length ? (
            <Scroll label="Writers by day">
              <table>
                <thead>
                  <tr>
                    <th scope="col">Day</th>
                    <th scope="col">Writer</th>
                    <th scope="col" class="num">
                      Writes
                    </th>
                    <th scope="col">Kinds</th>
                    <th scope="col">
                      <span class="hidden">Undo</span>
                    </th>
                  </tr>
                </thead>
                <tbody>
                  {groups.map((group) => (
                    <GroupRow key={groupId(group)} group={group} undo={() => setUndoing(group)} />
                  ))}
                </tbody>
              </table>
            </Scroll>
          ) : (
            <p class="empty">Nothing was written yet.</p>
          )}
          <Incomplete of={incomplete} />
          {undoing && (
            <UndoDialog
              wanted={asBody(ofGroup(undoing))}
              what={`the writes of ${undoing.by} on ${undoing.day}`}
              onClose={() => setUndoing(null)}
            />
          )}
        </>
      )}
    </Await>
  )
}

const groupId = (group: Group) => [group.day, group.source, group.client, group.key_id].join(' ')

function GroupRow({ group, undo }: { group: Group; undo: () => void }) {
  return (
    <tr>
      <td>
        <time dateTime={group.day}>{dayLabel(group.day)}</time>
      </td>
      <th scope="row">
        <a href={href(['writes'], ofGroup(group))}>{group.by}</a>
      </th>
      <td class="num">{number(group.count)}</td>
      <td>
        {Object.entries(group.families)
          .map(([family, count]) => `${familyLabel(family)} ${number(count)}`)
          .join(' · ')}
      </td>
      <td>
        <button class="danger" aria-label={`Undo the writes of ${group.by} on ${group.day}`} onClick={undo}>
          Undo…
        </button>
      </td>
    </tr>
  )
}

function Writes({ wanted }: { wanted: ChosenWrites }) {
  const query = { ...wanted, limit: SHOWN }
  const found = useResource(() => get('/api/journal', { query }), [query], MEMORY_CHANGES)
  const [isUndoing, setUndoing] = useState(false)
  return (
    <Await resource={found}>
      {({ writes, incomplete }) => (
        <>
          <div class="bar">
            <a class="button" href="/writes">
              All writers
            </a>
            <span class="mut">
              {writes.length < SHOWN ? plural(writes.length, 'write') : `the last ${number(SHOWN)} writes`}
            </span>
            <span class="space" />
            <button class="danger" disabled={!writes.length} onClick={() => setUndoing(true)}>
              {wanted.undo_id ? 'Take this undo back…' : 'Undo all that match…'}
            </button>
          </div>
          {writes.length ? <WriteTable writes={writes} /> : <p class="empty">Nothing was written that matches.</p>}
          <Incomplete of={incomplete} />
          {isUndoing && (
            <UndoDialog
              wanted={wanted}
              what={wanted.undo_id ? 'this undo' : 'all writes that match'}
              onClose={() => setUndoing(false)}
            />
          )}
        </>
      )}
    </Await>
  )
}

function WriteTable({ writes }: { writes: Entry[] }) {
  return (
    <Scroll label="Writes">
      <table>
        <thead>
          <tr>
            <th scope="col">Time</th>
            <th scope="col">Writer</th>
            <th scope="col">What</th>
            <th scope="col">Memory</th>
            <th scope="col">Kind</th>
          </tr>
        </thead>
        <tbody>
          {writes.map((write) => (
            <WriteRow key={write.id} write={write} />
          ))}
        </tbody>
      </table>
    </Scroll>
  )
}

function WriteRow({ write }: { write: Entry }) {
  return (
    <tr>
      <td>
        <time dateTime={write.at}>{shortTime(write.at)}</time>
      </td>
      <td>{write.by}</td>
      <td>
        {write.action}
        {write.rows !== null && `, ${write.rows < 0 ? '−' : '+'}${plural(Math.abs(write.rows), 'row')}`}
        {write.undone && ', undone'}
        {write.undo_id && (
          <>
            {' '}
            by <a href={href(['writes'], { undo_id: write.undo_id })}>an undo</a>
          </>
        )}
      </td>
      <th scope="row">{write.ref ? <a href={refHref(write.ref)}>{write.title}</a> : write.title}</th>
      <td>{kindLabel(write.family)}</td>
    </tr>
  )
}

function Incomplete({ of }: { of: Record<string, string> }) {
  return (
    <>
      {Object.entries(of).map(([name, why]) => (
        <p class="mut" role="alert" key={name}>
          {name}: {why}
        </p>
      ))}
    </>
  )
}
