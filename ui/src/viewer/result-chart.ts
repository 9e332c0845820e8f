// The rows of a query as lines, bars or points. Points of different groups are never joined.
import type { QueryResult } from '../shared/api-types'
import type { Series } from '../shared/chart'
import { cell } from '../shared/format'

export const CHART_KINDS = { lines: 'Lines', bars: 'Bars', points: 'Points' } as const
export type ChartKind = keyof typeof CHART_KINDS
export const PERIODS = { day: 'day', week: 'week', month: 'month', year: 'year' } as const

/** What the user chose; the rest follows from the rows. */
export interface ChartChoice {
  kind?: ChartKind
  x?: string // a column
  y?: string // a column of numbers; all of them without
  by?: string // the column that names the series; empty for none
  per?: keyof typeof PERIODS // how times are grouped, in a chart of a table
}

export interface ResultChart {
  x: (number | string)[]
  series: Series[]
  label: string
  isWhole: boolean // every column is drawn
}

export type Drawing = { chart: ResultChart } | { problem: string }

export const MAX_SERIES = 7
const MAX_ROWS = 5000
const MAX_COLUMNS = 4

type Row = QueryResult['rows'][number]
type Position = (row: Row) => number | string

const isNumeric = (result: QueryResult, name: string) =>
  result.rows.every((row) => row[name] === null || typeof row[name] === 'number')

/** The columns that can be values of a chart. */
export const numericColumns = (result: QueryResult) =>
  result.columns.map((column) => column.name).filter((name) => isNumeric(result, name))

/** Since 1970; NaN for what is no time. */
export const seconds = (value: unknown) =>
  typeof value === 'string' && /^\d{4}-\d\d-\d\d/.test(value)
    ? Date.parse(value.replace(' ', 'T') + (value.length > 10 ? 'Z' : '')) / 1000
    : NaN

/** The values of a column as times if all are, in their order, and otherwise as names; numbers in their order. */
function positions(rows: Row[], name: string): { of: Position; x: (number | string)[] } {
  const isTime = rows.every((row) => Number.isFinite(seconds(row[name])))
  const of = (row: Row) => (isTime ? seconds(row[name]) : cell(row[name]))
  const x = [...new Set(rows.map(of))]
  const isOrdered = isTime || rows.every((row) => typeof row[name] === 'number')
  return { of, x: isOrdered ? x.sort((a, b) => Number(a) - Number(b)) : x }
}

/** Without a choice: by the first column its numbers, or a series for each group that the other columns name. */
export function drawResult(result: QueryResult, choice: ChartChoice = {}): Drawing {
  const { rows } = result
  if (rows.length < 2) return { problem: 'A chart needs at least two rows.' }
  if (rows.length > MAX_ROWS) return { problem: `A chart shows at most ${MAX_ROWS} rows.` }
  const names = result.columns.map((column) => column.name)
  const first = names.find((name) => name === choice.x) ?? names[0]!
  const others = names.filter((name) => name !== first)
  const numbers = others.filter((name) => name !== choice.by && isNumeric(result, name))
  const chosen = numbers.filter((name) => name === choice.y)
  const values = chosen.length ? chosen : numbers
  if (!values.length) return { problem: 'A chart needs a column of numbers.' }
  const { of, x } = positions(rows, first)
  const isTime = typeof x[0] === 'number'
  const isUnique = x.length === rows.length
  const textual = others.filter((name) => !isNumeric(result, name))
  const automatic = isTime || !isUnique ? textual : []
  const groups = choice.by === undefined ? automatic : names.filter((name) => name === choice.by && name !== first)
  const found = groups.length
    ? groupSeries(rows, of, x, groups, values[0]!)
    : isUnique
      ? columnSeries(rows, of, x, values.slice(0, MAX_COLUMNS))
      : `Several rows have the same ${first}: choose a column for the series, or group by it in the query.`
  if (typeof found === 'string') return { problem: found }
  const kind = choice.kind ?? (isTime ? 'lines' : found.length === 1 ? 'bars' : 'points')
  const series = found.map((one) => ({ ...one, bars: kind === 'bars', points: kind === 'points' }))
  const drawn = groups.length && series.length > 1 ? values[0]! : series.map((one) => one.label).join(', ')
  const shown = groups.length ? [...groups, values[0]!] : values.slice(0, MAX_COLUMNS)
  return { chart: { x, series, label: `Chart of ${drawn} by ${first}`, isWhole: shown.length === others.length } }
}

function columnSeries(rows: Row[], of: Position, x: (number | string)[], names: string[]): Series[] {
  const byPosition = new Map(rows.map((row) => [of(row), row]))
  return names.map((name) => ({ label: name, values: x.map((at) => byPosition.get(at)![name] as number | null) }))
}

/** A text says why there is no picture. */
function groupSeries(
  rows: Row[],
  of: Position,
  x: (number | string)[],
  groups: string[],
  value: string,
): Series[] | string {
  const found = new Map<string, Map<number | string, number | null>>()
  for (const row of rows) {
    const label = groups.map((name) => cell(row[name])).join(' · ')
    const values = found.get(label) ?? new Map<number | string, number | null>()
    if (values.has(of(row))) return `Several rows of “${label}” have the same place: group by both in the query.`
    found.set(label, values.set(of(row), row[value] as number | null))
    if (found.size > MAX_SERIES)
      return `A chart shows at most ${MAX_SERIES} series, and there are more different ${groups.join(', ')}.`
  }
  return [...found].map(([label, values]) => ({
    label,
    values: x.map((at) => values.get(at) ?? null),
    spansGaps: true,
  }))
}
