// The rows of a query as lines or bars. Points of different groups are never joined.
import type { QueryResult } from '../shared/api-types'
import type { Series } from '../shared/chart'
import { cell } from '../shared/format'

export interface ResultChart {
  x: (number | string)[]
  series: Series[]
  label: string
}

export const MAX_SERIES = 7
const MAX_ROWS = 5000
const MAX_COLUMNS = 4

type Row = QueryResult['rows'][number]

const isNumeric = (result: QueryResult, name: string) =>
  result.rows.every((row) => row[name] === null || typeof row[name] === 'number')

const seconds = (value: unknown) =>
  typeof value === 'string' && /^\d{4}-\d\d-\d\d/.test(value)
    ? Date.parse(value.replace(' ', 'T') + (value.length > 10 ? 'Z' : '')) / 1000
    : NaN

/** The values of the first column as times if all are, in their order, and otherwise as names. */
function positions(rows: Row[], name: string): { of: (row: Row) => number | string; x: (number | string)[] } {
  const isTime = rows.every((row) => Number.isFinite(seconds(row[name])))
  const of = (row: Row) => (isTime ? seconds(row[name]) : cell(row[name]))
  const x = [...new Set(rows.map(of))]
  return { of, x: isTime ? x.sort((a, b) => Number(a) - Number(b)) : x }
}

/** By the first column: its numbers, or a series for each group where the other columns name groups. Null if that is
 *  no picture: nothing to count, several rows for one point, or too many groups. */
export function resultChart(result: QueryResult): ResultChart | null {
  const { rows } = result
  if (rows.length < 2 || rows.length > MAX_ROWS) return null
  const [first, ...others] = result.columns.map((column) => column.name)
  const numbers = others.filter((name) => isNumeric(result, name))
  if (!numbers.length) return null
  const { of, x } = positions(rows, first!)
  const isTime = typeof x[0] === 'number'
  const groups = others.filter((name) => !numbers.includes(name))
  const isUnique = x.length === rows.length
  const series =
    groups.length && (isTime || !isUnique)
      ? groupSeries(rows, of, x, groups, numbers[0]!)
      : isUnique
        ? columnSeries(rows, of, x, numbers.slice(0, MAX_COLUMNS))
        : null
  if (!series) return null
  const shown = series.map((line) => ({
    ...line,
    bars: !isTime && series.length === 1,
    points: !isTime && series.length > 1,
  }))
  const values = groups.length && series.length > 1 ? numbers[0]! : shown.map((line) => line.label).join(', ')
  return { x, series: shown, label: `Chart of ${values} by ${first!}` }
}

type Position = (row: Row) => number | string

function columnSeries(rows: Row[], of: Position, x: (number | string)[], names: string[]): Series[] {
  const byPosition = new Map(rows.map((row) => [of(row), row]))
  return names.map((name) => ({ label: name, values: x.map((at) => byPosition.get(at)![name] as number | null) }))
}

/** Null if a group has several rows for one point, or there are too many groups. */
function groupSeries(
  rows: Row[],
  of: Position,
  x: (number | string)[],
  groups: string[],
  value: string,
): Series[] | null {
  const found = new Map<string, Map<number | string, number | null>>()
  for (const row of rows) {
    const label = groups.map((name) => cell(row[name])).join(' · ')
    const values = found.get(label) ?? new Map<number | string, number | null>()
    if (values.has(of(row))) return null
    found.set(label, values.set(of(row), row[value] as number | null))
    if (found.size > MAX_SERIES) return null
  }
  return [...found].map(([label, values]) => ({
    label,
    values: x.map((at) => values.get(at) ?? null),
    spansGaps: true,
  }))
}
