// A chart of a table that a person makes by choices alone: the query that it needs, and the drawing of its result.
import type { Column, QueryResult, Row, Table } from '../shared/api-types'
import type { Series } from '../shared/chart'
import { cell } from '../shared/format'
import { LOCALE } from '../shared/locale'
import { MAX_SERIES, PERIODS, seconds, type ChartChoice, type ChartKind, type Drawing } from './result-chart'

type Period = keyof typeof PERIODS

/** How rows become a value: counted, or a column of theirs added up or averaged. */
export interface Measure {
  value: string // in an address
  label: string
  sql: string
  isTotal: boolean // several of them can be added, and no row means zero
}

/** What is drawn: the choices of the user, and for the rest what fits the table. */
export interface TableChart {
  table: string
  x: Column
  per: Period | undefined // for a column of times
  measure: Measure
  by: string // the column that names the series; empty for none
  kind: ChartKind | undefined
}

export const MAX_PLACES = 50 // along the axis, if they are names
const MAX_PERIODS = 1000
const OTHER = 'other'
const STARTS: Record<Period, string> = {
  day: 'toDate',
  week: 'toMonday',
  month: 'toStartOfMonth',
  year: 'toStartOfYear',
}

const typeOf = (column: Column) => column.type.replace(/^(?:Nullable|LowCardinality)\(/, '')
export const isTime = (column: Column) => /^Date/.test(typeOf(column))
const isNumber = (column: Column) => /^(?:U?Int|Float|Decimal)/.test(typeOf(column))
const isId = (name: string) => /(?:^|_)id$/i.test(name)
const isAmount = (column: Column) => isNumber(column) && !isId(column.name)
const quote = (name: string) => '`' + name.replace(/[\\`]/g, '\\$&') + '`'

const COUNT: Measure = { value: 'count', label: 'number of rows', sql: 'count()', isTotal: true }

export const measures = (table: Table): Measure[] => [
  COUNT,
  ...table.columns.filter(isAmount).flatMap(({ name }) => [
    { value: `sum ${name}`, label: `total of ${name}`, sql: `sum(${quote(name)})`, isTotal: true },
    { value: `avg ${name}`, label: `average of ${name}`, sql: `avg(${quote(name)})`, isTotal: false },
  ]),
]

/** Without a choice: the first amount, by month or by the first name. */
export function completeChoice(table: Table, choice: ChartChoice): TableChart | null {
  const { columns } = table
  const x =
    columns.find(({ name }) => name === choice.x) ??
    columns.find(isTime) ??
    columns.find((column) => !isNumber(column)) ??
    columns[0]
  if (!x) return null
  const amount = columns.find((column) => isAmount(column) && column !== x)
  const offered = measures(table)
  return {
    table: table.name,
    x,
    per: isTime(x) ? (choice.per ?? 'month') : undefined,
    measure: offered.find(({ value }) => value === (choice.y ?? (amount && `sum ${amount.name}`))) ?? COUNT,
    by: columns.some(({ name }) => name === choice.by && name !== x.name) ? choice.by! : '',
    kind: choice.kind,
  }
}

const placeName = ({ x, per }: TableChart) => (per ? `${x.name} per ${per}` : x.name)

export function chartQuery(chart: TableChart): string {
  const { table, x, per, measure, by } = chart
  const place = quote(placeName(chart))
  const groups = by ? [place, quote(by)] : [place]
  const selected = [per ? `${STARTS[per]}(${quote(x.name)}) AS ${place}` : place, ...groups.slice(1)]
  const isRanked = !per && !isNumber(x) && !by
  return [
    `SELECT ${[...selected, `${measure.sql} AS ${quote(measure.label)}`].join(', ')}`,
    `FROM ${quote(table)}`,
    ...(per ? [`WHERE ${quote(x.name)} IS NOT NULL`] : []),
    `GROUP BY ${groups.join(', ')}`,
    isRanked ? `ORDER BY ${quote(measure.label)} DESC\nLIMIT ${MAX_PLACES}` : `ORDER BY ${groups.join(', ')}`,
  ].join('\n')
}

/** 0.1 + 0.2 is 0.3. */
const round = (value: number) => Number(value.toPrecision(12))
const valueOf = (row: Row, label: string) => (row[label] === null ? null : round(Number(row[label])))

function nextPeriod(at: number, per: Period): number {
  const date = new Date(at * 1000)
  if (per === 'year') date.setUTCFullYear(date.getUTCFullYear() + 1)
  else if (per === 'month') date.setUTCMonth(date.getUTCMonth() + 1)
  else date.setUTCDate(date.getUTCDate() + (per === 'week' ? 7 : 1))
  return date.getTime() / 1000
}

const MONTH_FORMAT = { month: 'short', year: 'numeric', timeZone: 'UTC' } as const

/** Months and years have names, so that the axis marks each of them; days and weeks are times. */
function nameOf(at: number | string, per: Period | undefined): number | string {
  if (typeof at === 'string' || per === 'day' || per === 'week') return at
  const date = new Date(at * 1000)
  return per === 'year' ? String(date.getUTCFullYear()) : date.toLocaleDateString(LOCALE, MONTH_FORMAT)
}

/** From the first period to the last, those without rows too. */
function allPeriods(found: number[], per: Period): number[] {
  const all: number[] = []
  const last = Math.max(...found)
  for (let at = Math.min(...found); at <= last && all.length <= MAX_PERIODS; at = nextPeriod(at, per)) all.push(at)
  return all
}

/** The largest series first; of totals, those for which there is no color are added up. */
function nameSeries(rows: Row[], { by, measure }: TableChart): Map<string, string> | null {
  const sizes = new Map<string, number>()
  for (const row of rows) {
    const name = cell(row[by])
    sizes.set(name, (sizes.get(name) ?? 0) + Math.abs(valueOf(row, measure.label) ?? 0))
  }
  const names = [...sizes].sort((one, other) => other[1] - one[1]).map(([name]) => name)
  if (names.length <= MAX_SERIES) return new Map(names.map((name) => [name, name]))
  if (!measure.isTotal) return null
  return new Map(names.map((name, rank) => [name, rank < MAX_SERIES - 1 ? name : OTHER]))
}

export function drawTableChart(result: QueryResult, chart: TableChart): Drawing {
  const { per, measure, by } = chart
  const { rows } = result
  if (!rows.length) return { problem: 'There are no rows to draw.' }
  if (result.truncated) return { problem: `There is too much to draw: choose less than ${placeName(chart)}.` }
  const names = by ? nameSeries(rows, chart) : new Map([['', measure.label]])
  if (!names)
    return { problem: `There are more than ${MAX_SERIES} different ${by}: an average of them cannot be drawn.` }
  const place = placeName(chart)
  const at = (row: Row) => (per ? seconds(row[place]) : cell(row[place]))
  const places = [...new Set(rows.map(at))]
  const x = per && measure.isTotal ? allPeriods(places as number[], per) : places
  if (x.length > MAX_PERIODS) return { problem: `There are more than ${MAX_PERIODS} ${per}s: choose a longer period.` }
  const empty = measure.isTotal ? 0 : null
  const values = new Map<string, Map<number | string, number | null>>()
  for (const name of names.values()) values.set(name, new Map())
  for (const row of rows) {
    const line = values.get(names.get(by ? cell(row[by]) : '')!)!
    const value = valueOf(row, measure.label)
    line.set(at(row), line.has(at(row)) ? round((line.get(at(row)) ?? 0) + (value ?? 0)) : value)
  }
  const kind = chart.kind ?? (per && x.length > 1 ? 'lines' : 'bars')
  const series = [...values].map(([label, found]): Series => ({
    label,
    values: x.map((one) => found.get(one) ?? empty),
    bars: kind === 'bars',
    points: kind === 'points',
    spansGaps: !measure.isTotal,
  }))
  const ofEach = by ? ` of each ${by}` : ''
  const label = `Chart of ${measure.label}${ofEach} by ${place}`
  return { chart: { x: x.map((one) => nameOf(one, per)), series, label, isWhole: true } }
}
