// Sorting, filtering and paging are the server's work: what a page wants becomes one SELECT with bound values.
import type { Bridge, Column, Result, Row, Table } from '../shared/bridge'

export interface Wish {
  sort?: string
  descending: boolean
  search: string
  filters: Record<string, string>
}

export const EVERYTHING: Wish = { descending: false, search: '', filters: {} }

const isNumber = (column: Column) => /Int|Float|Decimal/.test(column.type)
const isTime = (column: Column) => /Date/.test(column.type)
export const isPlain = (column: Column) => !/JSON|Array|Dynamic|Map|Tuple|Object/.test(column.type)
const quoted = (name: string) => '`' + name.replaceAll('`', '') + '`'

/** A condition and its values. `>5`, `<=5`, `=a`, `!=a`, `null`, `!null`; anything else is looked for in the text. */
export function condition(table: Table, wish: Wish): Asked {
  const parts: string[] = []
  const parameters: Row = {}
  const bind = (value: string | number, type: string) => {
    const name = `p${Object.keys(parameters).length}`
    parameters[name] = value
    return `{${name}:${type}}`
  }
  const holds = (column: Column, text: string) =>
    `positionCaseInsensitiveUTF8(toString(${quoted(column.name)}), ${bind(text, 'String')}) > 0`
  for (const column of table.columns) {
    const filter = wish.filters[column.name]?.trim()
    if (!filter) continue
    const name = quoted(column.name)
    const [, operator, value] = /^(>=|<=|!=|=|>|<)\s*(.*)$/.exec(filter) ?? []
    if (filter === 'null') parts.push(`isNull(${name})`)
    else if (filter === '!null') parts.push(`isNotNull(${name})`)
    else if (operator && value !== undefined) {
      if (isNumber(column) && Number.isFinite(Number(value)))
        parts.push(`${name} ${operator} ${bind(Number(value), 'Float64')}`)
      else if (isTime(column)) parts.push(`${name} ${operator} parseDateTimeBestEffort(${bind(value, 'String')})`)
      else parts.push(`toString(${name}) ${operator} ${bind(value, 'String')}`)
    } else parts.push(holds(column, filter))
  }
  const search = wish.search.trim()
  if (search) parts.push('(' + table.columns.map((column) => holds(column, search)).join(' OR ') + ')')
  return { sql: parts.length ? ' WHERE ' + parts.join(' AND ') : '', parameters }
}

interface Asked {
  sql: string
  parameters: Row
}

/** What a table is sorted by if nobody says otherwise: when its records came about, then its id. Ids of messages are random. */
const usual = (table: Table) =>
  ['timestamp', 'created_at'].find((name) => table.columns.some((column) => column.name === name && isTime(column)))

function order(table: Table, wish: Wish): string {
  const first = wish.sort ?? usual(table)
  const keys = table.columns.filter((column) => column.primary).map((column) => column.name)
  const others = table.columns.filter((column) => isPlain(column) && !column.primary).map((column) => column.name)
  const by = [...keys, ...others].filter((name) => name !== first).map(quoted)
  if (first) by.unshift(quoted(first) + (wish.sort && wish.descending ? ' DESC' : ''))
  return by.length ? ' ORDER BY ' + by.join(', ') : '' // every column, so that pages do not overlap
}

/** The rows a wish means, as a SELECT without bounds. */
export function select(table: Table, wish: Wish): Asked {
  const { sql, parameters } = condition(table, wish)
  return { sql: `SELECT * FROM ${quoted(table.name)}${sql}${order(table, wish)}`, parameters }
}

export async function count(bridge: Bridge, portalUri: string, table: Table, wish: Wish): Promise<number> {
  const { sql, parameters } = condition(table, wish)
  if (!sql) return table.rows
  const asked = { portalUri, sql: `SELECT count() AS n FROM ${quoted(table.name)}${sql}`, parameters }
  const found = await bridge.call<Result>('portal_query', asked)
  return Number(found.rows[0]?.n ?? 0)
}

/** Up to `limit` rows from `offset` on. Long rows come in several answers; one too long for any is cut. */
export function page(
  bridge: Bridge,
  portalUri: string,
  table: Table,
  wish: Wish,
  offset: number,
  limit: number,
): Promise<Row[]> {
  return fetched(bridge, portalUri, table, select(table, wish), offset, limit)
}

async function fetched(
  bridge: Bridge,
  portalUri: string,
  table: Table,
  { sql, parameters }: Asked,
  offset: number,
  limit: number,
): Promise<Row[]> {
  const rows: Row[] = []
  while (rows.length < limit) {
    const bounds = ` LIMIT ${limit - rows.length} OFFSET ${offset + rows.length}`
    const found = await bridge.call<Result>('portal_query', { portalUri, sql: sql + bounds, parameters })
    rows.push(...found.rows)
    if (!found.truncated) break
    if (!found.rows.length) rows.push(await cut(bridge, portalUri, table, sql, parameters, offset + rows.length))
  }
  return rows
}

export const WAS_CUT = '\u2026 (cut)'

async function cut(
  bridge: Bridge,
  portalUri: string,
  table: Table,
  sql: string,
  parameters: Row,
  offset: number,
): Promise<Row> {
  const most = Math.max(20, Math.floor(40000 / table.columns.length))
  const columns = table.columns.map(
    (column) => `substringUTF8(toString(${quoted(column.name)}), 1, ${most}) AS ${quoted(column.name)}`,
  )
  const inner = `SELECT ${columns.join(', ')} FROM (${sql} LIMIT 1 OFFSET ${offset})`
  const found = await bridge.call<Result>('portal_query', { portalUri, sql: inner, parameters })
  const row = found.rows[0] ?? {}
  for (const [name, value] of Object.entries(row))
    if (typeof value === 'string' && value.length >= most) row[name] = value + WAS_CUT
  return row
}

const [KEY, AT] = ['`the key`', '`the place`'] // no column has a space in its name

const keyOf = (table: Table) => table.columns.find((column) => column.primary)

/** What two rows are told apart by where there is no id. */
const identity = (table: Table, row: Row) =>
  JSON.stringify(table.columns.filter(isPlain).map((column) => row[column.name] ?? null))

/** The rows that go when these do: in a table without an id, all that are equal to one of them, as far as `limit`. */
export async function together(
  bridge: Bridge,
  portalUri: string,
  table: Table,
  wish: Wish,
  rows: Map<number, Row>,
  limit: number,
): Promise<Row[]> {
  const chosen = [...rows.values()]
  if (keyOf(table)) return chosen
  const values = table.columns
    .filter(isPlain)
    .map((column) => `ifNull(concat('=', toString(${quoted(column.name)})), '')`)
  const key = `toString([${values.join(', ')}])`
  const { sql, parameters } = condition(table, wish)
  const numbered = `SELECT ${key} AS ${KEY}, row_number() OVER (${order(table, wish).trim()}) AS ${AT} FROM ${quoted(table.name)}${sql}`
  const places = [...rows.keys()].map((index) => index + 1).join(', ')
  const asked = {
    sql: `SELECT * FROM ${quoted(table.name)} WHERE ${key} IN (SELECT ${KEY} FROM (${numbered}) WHERE ${AT} IN (${places}))`,
    parameters,
  }
  const found = await fetched(bridge, portalUri, table, asked, 0, limit)
  const there = new Set(found.map((row) => identity(table, row)))
  if (found.length < limit && chosen.some((row) => !there.has(identity(table, row))))
    throw new Error('The table has changed meanwhile. Select the rows again.')
  return found
}

/** Conditions that mean these rows: by `id` at once, or each by all its plain values. */
export function meaning(table: Table, rows: Row[]): Row[] {
  if (rows.some((row) => Object.values(row).some((value) => typeof value === 'string' && value.endsWith(WAS_CUT)))) {
    throw new Error('One of these rows is too long to be shown whole. Delete it with a condition, by portal_delete.')
  }
  const key = keyOf(table)
  if (key) return [{ [key.name]: rows.map((row) => row[key.name]) }]
  const plain = table.columns.filter(isPlain)
  return rows.map((row) => Object.fromEntries(plain.map((column) => [column.name, row[column.name] ?? null])))
}
