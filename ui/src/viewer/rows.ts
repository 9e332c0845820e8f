// Sorting, filtering and paging happen on the server: a query of rows becomes one SELECT with bound values.
import type { Column, Row, Table } from '../shared/api-types'
import type { Bridge } from '../shared/bridge'

export interface RowQuery {
  sort?: string
  descending: boolean
  search: string
  filters: Record<string, string>
}

export const ALL_ROWS: RowQuery = { descending: false, search: '', filters: {} }

const isNumber = (column: Column) => /Int|Float|Decimal/.test(column.type)
const isTime = (column: Column) => /Date/.test(column.type)
export const isScalar = (column: Column) => !/JSON|Array|Dynamic|Map|Tuple|Object/.test(column.type)
const quote = (name: string) => '`' + name.replaceAll('\\', '\\\\').replaceAll('`', '\\`') + '`'

interface Statement {
  sql: string
  parameters: Row
}

/** The WHERE clause. Filters: `>5`, `<=5`, `=a`, `!=a`, `null`, `!null`; any other text has to be in the value. */
export function condition(table: Table, query: RowQuery): Statement {
  const parts: string[] = []
  const parameters: Row = {}
  const bind = (value: string | number, type: string) => {
    const name = `p${Object.keys(parameters).length}`
    parameters[name] = value
    return `{${name}:${type}}`
  }
  const contains = (column: Column, text: string) =>
    `positionCaseInsensitiveUTF8(toString(${quote(column.name)}), ${bind(text, 'String')}) > 0`
  for (const column of table.columns) {
    const filter = query.filters[column.name]?.trim()
    if (!filter) continue
    const name = quote(column.name)
    const [, operator, value] = /^(>=|<=|!=|=|>|<)\s*(.*)$/.exec(filter) ?? []
    if (filter === 'null') parts.push(`isNull(${name})`)
    else if (filter === '!null') parts.push(`isNotNull(${name})`)
    else if (operator && value !== undefined) {
      if (isNumber(column) && Number.isFinite(Number(value)))
        parts.push(`${name} ${operator} ${bind(Number(value), 'Float64')}`)
      else if (isTime(column)) parts.push(`${name} ${operator} parseDateTimeBestEffort(${bind(value, 'String')})`)
      else parts.push(`toString(${name}) ${operator} ${bind(value, 'String')}`)
    } else parts.push(contains(column, filter))
  }
  const search = query.search.trim()
  if (search) parts.push('(' + table.columns.map((column) => contains(column, search)).join(' OR ') + ')')
  return { sql: parts.length ? ' WHERE ' + parts.join(' AND ') : '', parameters }
}

/** The default order is by time, then by id: the ids of messages are random. */
const defaultSort = (table: Table) =>
  ['timestamp', 'created_at'].find((name) => table.columns.some((column) => column.name === name && isTime(column)))

function orderBy(table: Table, query: RowQuery): string {
  const first = query.sort ?? defaultSort(table)
  const keys = table.columns.filter((column) => column.primary).map((column) => column.name)
  const others = table.columns.filter((column) => isScalar(column) && !column.primary).map((column) => column.name)
  const by = [...keys, ...others].filter((name) => name !== first).map(quote)
  if (first) by.unshift(quote(first) + (query.sort && query.descending ? ' DESC' : ''))
  return by.length ? ' ORDER BY ' + by.join(', ') : '' // every column, so that pages do not overlap
}

/** A SELECT of the rows of a query, without LIMIT. */
export function select(table: Table, query: RowQuery): Statement {
  const { sql, parameters } = condition(table, query)
  return { sql: `SELECT * FROM ${quote(table.name)}${sql}${orderBy(table, query)}`, parameters }
}

export async function countRows(bridge: Bridge, portalUri: string, table: Table, query: RowQuery): Promise<number> {
  const { sql, parameters } = condition(table, query)
  if (!sql) return table.rows
  const statement = { portalUri, sql: `SELECT count() AS n FROM ${quote(table.name)}${sql}`, parameters }
  const found = await bridge.call('portal_query', statement)
  return Number(found.rows[0]?.n ?? 0)
}

/** Up to `limit` rows from `offset` on. Long rows arrive in several responses; a row too long for any is cut. */
export function fetchPage(
  bridge: Bridge,
  portalUri: string,
  table: Table,
  query: RowQuery,
  offset: number,
  limit: number,
): Promise<Row[]> {
  return fetchRows(bridge, portalUri, table, select(table, query), offset, limit)
}

async function fetchRows(
  bridge: Bridge,
  portalUri: string,
  table: Table,
  { sql, parameters }: Statement,
  offset: number,
  limit: number,
): Promise<Row[]> {
  const rows: Row[] = []
  while (rows.length < limit) {
    const bounds = ` LIMIT ${limit - rows.length} OFFSET ${offset + rows.length}`
    const found = await bridge.call('portal_query', { portalUri, sql: sql + bounds, parameters })
    rows.push(...found.rows)
    if (!found.truncated) break
    if (!found.rows.length)
      rows.push(await fetchCutRow(bridge, portalUri, table, sql, parameters, offset + rows.length))
  }
  return rows
}

const MAX_CUT_ROW_CHARS = 20_000
export const CUT_MARK = '\u2026 (cut)'

async function fetchCutRow(
  bridge: Bridge,
  portalUri: string,
  table: Table,
  sql: string,
  parameters: Row,
  offset: number,
): Promise<Row> {
  const maxChars = Math.max(20, Math.floor(MAX_CUT_ROW_CHARS / table.columns.length))
  const columns = table.columns.map(
    (column) => `substringUTF8(toString(${quote(column.name)}), 1, ${maxChars}) AS ${quote(column.name)}`,
  )
  const inner = `SELECT ${columns.join(', ')} FROM (${sql} LIMIT 1 OFFSET ${offset})`
  const found = await bridge.call('portal_query', { portalUri, sql: inner, parameters })
  const row = found.rows[0] ?? {}
  for (const [name, value] of Object.entries(row))
    if (typeof value === 'string' && value.length >= maxChars) row[name] = value + CUT_MARK
  return row
}

// Columns that the server creates have no dot in their names.
const [ROW_KEY, ROW_NUMBER] = ['`row.key`', '`row.number`']

const keyOf = (table: Table) => table.columns.find((column) => column.primary)

/** Equal for equal rows of a table without an id. */
const identity = (table: Table, row: Row) =>
  JSON.stringify(table.columns.filter(isScalar).map((column) => row[column.name] ?? null))

/** The rows that are deleted with these: in a table without an id, all that equal one of them, up to `limit`. */
export async function findEqualRows(
  bridge: Bridge,
  portalUri: string,
  table: Table,
  query: RowQuery,
  rows: Map<number, Row>,
  limit: number,
): Promise<Row[]> {
  const chosen = [...rows.values()]
  if (keyOf(table)) return chosen
  const values = table.columns
    .filter(isScalar)
    .map((column) => `ifNull(concat('=', toString(${quote(column.name)})), '')`)
  const key = `toString([${values.join(', ')}])`
  const { sql, parameters } = condition(table, query)
  const numbering = `row_number() OVER (${orderBy(table, query).trim()})`
  const numbered = `SELECT ${key} AS ${ROW_KEY}, ${numbering} AS ${ROW_NUMBER} FROM ${quote(table.name)}${sql}`
  const numbers = [...rows.keys()].map((index) => index + 1).join(', ')
  const keys = `SELECT ${ROW_KEY} FROM (${numbered}) WHERE ${ROW_NUMBER} IN (${numbers})`
  const statement = { sql: `SELECT * FROM ${quote(table.name)} WHERE ${key} IN (${keys})`, parameters }
  const found = await fetchRows(bridge, portalUri, table, statement, 0, limit)
  const existing = new Set(found.map((row) => identity(table, row)))
  if (found.length < limit && chosen.some((row) => !existing.has(identity(table, row))))
    throw new Error('The table changed meanwhile. Select the rows again.')
  return found
}

/** Conditions for portal_delete: one with all ids, or one for each row with all its scalar values. */
export function deleteConditions(table: Table, rows: Row[]): Row[] {
  if (rows.some((row) => Object.values(row).some((value) => typeof value === 'string' && value.endsWith(CUT_MARK)))) {
    throw new Error(
      'One of these rows is too long to be shown completely. Delete it with a condition, by portal_delete.',
    )
  }
  const key = keyOf(table)
  if (key) return [{ [key.name]: rows.map((row) => row[key.name]) }]
  const scalars = table.columns.filter(isScalar)
  return rows.map((row) => Object.fromEntries(scalars.map((column) => [column.name, row[column.name] ?? null])))
}
