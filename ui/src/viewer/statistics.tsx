// The schema of a portal, its size and its usage.
import { useEffect, useState } from 'preact/hooks'
import type { Row, Table, View } from '../shared/api-types'
import type { Bridge } from '../shared/bridge'
import { bytes, cell, errorMessage, number, plural, shortTime } from '../shared/format'
import { isScalar } from './rows'
import { Scroll } from '../shared/scroll'

interface Found {
  rows: Row[] | null
  error: string | null
}

function useQuery(bridge: Bridge, portalUri: string, sql: string | null): Found {
  const [found, setFound] = useState<Found>({ rows: null, error: null })
  useEffect(() => {
    let isCurrent = true
    const set = (next: Found) => isCurrent && setFound(next)
    set({ rows: null, error: null })
    if (sql)
      bridge.call('portal_query', { portalUri, sql }).then(
        (result) => set({ rows: result.rows, error: null }),
        (error: unknown) => set({ rows: null, error: errorMessage(error) }),
      )
    return () => void (isCurrent = false)
  }, [portalUri, sql])
  return found
}

const METADATA = 'SELECT key, value, toString(updated_at) AS updated_at FROM _mcp_metadata ORDER BY key'

/** Columns that are named after the id of another table: `message_id` after messages.id. */
export function relations(tables: Table[]): { from: string; to: string }[] {
  const found: { from: string; to: string }[] = []
  for (const table of tables) {
    for (const column of table.columns) {
      const base = /^(.+?)_?id$/i.exec(column.name)?.[1]?.toLowerCase()
      for (const other of tables) {
        if (other === table) continue
        const named = other.name.toLowerCase()
        const isKey = other.columns.some((item) => item.name === 'id' && item.primary)
        if (base && isKey && [base, base + 's', base + 'es'].includes(named))
          found.push({ from: `${table.name}.${column.name}`, to: `${other.name}.id` })
      }
    }
  }
  return found
}

export function Schema({ bridge, view, table }: { bridge: Bridge; view: View; table: Table }) {
  const { rows } = useQuery(bridge, view.portalUri, METADATA)
  const statement = rows?.find((row) => row.key === `mcp.schema.${table.name}`)?.value
  const related = relations(view.tables)
  return (
    <section aria-label="Schema" class="about">
      <h2>{table.name}</h2>
      <Scroll label={`Columns of ${table.name}`}>
        <table>
          <thead>
            <tr>
              <th scope="col">Column</th>
              <th scope="col">Type</th>
              <th scope="col">Key</th>
            </tr>
          </thead>
          <tbody>
            {table.columns.map((column) => (
              <tr key={column.name}>
                <td>{column.name}</td>
                <td>
                  <code>{column.type}</code>
                </td>
                <td>{column.primary ? 'sorted by' : ''}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
      {statement ? <pre tabIndex={0}>{cell(statement)}</pre> : null}
      <h2>Relationships</h2>
      {related.length ? (
        <ul>
          {related.map((item) => (
            <li key={item.from + item.to}>
              <code>{item.from}</code> points at <code>{item.to}</code>
            </li>
          ))}
        </ul>
      ) : (
        <p class="mut">
          No column is named after another table (such as <code>message_id</code> for <code>messages</code>).
        </p>
      )}
    </section>
  )
}

export function Statistics({ bridge, view, table }: { bridge: Bridge; view: View; table: Table | undefined }) {
  const metadata = useQuery(bridge, view.portalUri, METADATA)
  const known = Object.fromEntries((metadata.rows ?? []).map((row) => [String(row.key), cell(row.value)]))
  const changed = (metadata.rows ?? [])
    .map((row) => String(row.updated_at))
    .sort()
    .at(-1)
  const { usage } = view.stats
  const maximum = Math.max(1, ...view.tables.map((item) => item.rows))
  return (
    <section aria-label="Statistics" class="about">
      <dl class="facts">
        <div>
          <dt>Tables</dt>
          <dd>{number(view.stats.tables)}</dd>
        </div>
        <div>
          <dt>Rows</dt>
          <dd>{number(view.stats.rows)}</dd>
        </div>
        <div>
          <dt>On disk</dt>
          <dd>{bytes(view.stats.bytes)}</dd>
        </div>
        <div>
          <dt>Reads</dt>
          <dd>{number(usage.reads ?? 0)}</dd>
        </div>
        <div>
          <dt>Last read</dt>
          <dd>{shortTime(usage.lastRead)}</dd>
        </div>
        <div>
          <dt>Writes</dt>
          <dd>{number(usage.writes ?? 0)}</dd>
        </div>
        <div>
          <dt>Last write</dt>
          <dd>{shortTime(usage.lastWrite)}</dd>
        </div>
        <div>
          <dt>Created</dt>
          <dd>{shortTime(known['mcp.created_at'])}</dd>
        </div>
        <div>
          <dt>Schema version</dt>
          <dd>{known['mcp.schema_version'] ?? '–'}</dd>
        </div>
        <div>
          <dt>Schema changed</dt>
          <dd>{changed?.slice(0, 16) ?? '–'}</dd>
        </div>
      </dl>
      <h2>By table</h2>
      <table class="bars">
        <thead>
          <tr>
            <th scope="col">Table</th>
            <th scope="col">Share</th>
            <th scope="col" class="num">
              Rows
            </th>
            <th scope="col" class="num">
              Size
            </th>
          </tr>
        </thead>
        <tbody>
          {view.tables.map((item) => (
            <tr key={item.name}>
              <th scope="row">{item.name}</th>
              <td>
                <span style={{ width: `${(100 * item.rows) / maximum}%` }} />
              </td>
              <td class="num">{number(item.rows)}</td>
              <td class="num">{bytes(item.bytes)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {table && <Profile bridge={bridge} portalUri={view.portalUri} table={table} />}
    </section>
  )
}

function Profile({ bridge, portalUri, table }: { bridge: Bridge; portalUri: string; table: Table }) {
  const plain = table.columns.filter(isScalar)
  const parts = plain.flatMap(({ name }, at) => [
    `countIf(isNull(\`${name}\`)) AS n${at}`,
    `uniq(\`${name}\`) AS u${at}`,
    `substringUTF8(toString(min(\`${name}\`)), 1, 60) AS a${at}`,
    `substringUTF8(toString(max(\`${name}\`)), 1, 60) AS z${at}`,
  ])
  const { rows, error } = useQuery(
    bridge,
    portalUri,
    plain.length ? `SELECT ${parts.join(', ')} FROM \`${table.name}\`` : null,
  )
  const row = rows?.[0]
  return (
    <>
      <h2>
        Columns of {table.name} <span class="mut">({plural(table.rows, 'row')})</span>
      </h2>
      {error && (
        <p class="error" role="alert">
          {error}
        </p>
      )}
      <Scroll label={`Profile of ${table.name}`}>
        <table>
          <thead>
            <tr>
              <th scope="col">Column</th>
              <th scope="col" class="num">
                Null
              </th>
              <th scope="col" class="num">
                Distinct, about
              </th>
              <th scope="col">Least</th>
              <th scope="col">Greatest</th>
            </tr>
          </thead>
          <tbody>
            {plain.map(({ name }, at) => (
              <tr key={name}>
                <th scope="row">{name}</th>
                <td class="num">
                  {row ? `${table.rows ? Math.round((100 * Number(row[`n${at}`])) / table.rows) : 0} %` : '…'}
                </td>
                <td class="num">{row ? number(Number(row[`u${at}`])) : '…'}</td>
                <td>{row ? cell(row[`a${at}`]) : '…'}</td>
                <td>{row ? cell(row[`z${at}`]) : '…'}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
    </>
  )
}
