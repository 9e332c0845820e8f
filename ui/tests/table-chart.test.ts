import { expect, test } from 'vitest'
import type { QueryResult, Table } from '../src/shared/api-types'
import type { ChartChoice } from '../src/viewer/result-chart'
import { chartQuery, completeChoice, drawTableChart, measures } from '../src/viewer/table-chart'

const column = (name: string, type: string) =>
  ({ name, type, position: 1, isKey: false }) as unknown as Table['columns'][number]

const EXPENSES = {
  name: 'expenses',
  columns: [
    column('id', 'Int64'),
    column('Date', 'Nullable(Date)'),
    column('Kind', 'LowCardinality(String)'),
    column('Amount', 'Nullable(Float64)'),
  ],
} as unknown as Table

const chosen = (choice: ChartChoice = {}) => completeChoice(EXPENSES, choice)!

function result(columns: string[], rows: unknown[][]): QueryResult {
  return {
    columns: columns.map((name) => ({ name, type: 'String' })),
    rows: rows.map((row) => Object.fromEntries(columns.map((name, at) => [name, row[at]]))),
    rowCount: rows.length,
    truncated: false,
    elapsedMs: 1,
  }
}

function drawn(rows: unknown[][], choice: ChartChoice) {
  const chart = chosen(choice)
  const names = [chart.per ? `${chart.x.name} per ${chart.per}` : chart.x.name, ...(chart.by ? [chart.by] : [])]
  return drawTableChart(result([...names, chart.measure.label], rows), chart)
}

const shown = (drawing: ReturnType<typeof drawTableChart>) =>
  'chart' in drawing
    ? {
        x: drawing.chart.x,
        series: drawing.chart.series.map(({ label, values }): [string, (number | null)[]] => [label, values]),
      }
    : drawing.problem

test('without a choice the first amount is added up by month', () => {
  const { x, per, measure, by } = chosen()
  expect([x.name, per, measure.label, by]).toEqual(['Date', 'month', 'total of Amount', ''])
  expect(chartQuery(chosen())).toBe(
    'SELECT toStartOfMonth(`Date`) AS `Date per month`, sum(`Amount`) AS `total of Amount`\nFROM `expenses`\n' +
      'WHERE `Date` IS NOT NULL\nGROUP BY `Date per month`\nORDER BY `Date per month`',
  )
})

test('a choice that the table does not offer is replaced, and names are quoted', () => {
  expect(chosen({ x: 'gone', y: 'sum gone', by: 'Date' })).toMatchObject({ x: { name: 'Date' }, by: '' })
  expect(chosen({ y: 'sum gone' }).measure.label).toBe('number of rows')
  const odd = { name: 'a`b', columns: [column('c\\`d', 'String')] } as unknown as Table
  expect(chartQuery(completeChoice(odd, {})!)).toContain(
    'SELECT `c\\\\\\`d`, count() AS `number of rows`\nFROM `a\\`b`',
  )
  expect(measures(odd).map(({ value }) => value)).toEqual(['count'])
  expect(completeChoice({ name: 'empty', columns: [] } as unknown as Table, {})).toBeNull()
})

test('months without rows have a total of zero', () => {
  const rows = [
    ['2025-12-01', 'rent', 900],
    ['2025-12-01', 'food', 0.1],
    ['2026-02-01', 'rent', 950],
  ]
  expect(shown(drawn(rows, { by: 'Kind' }))).toEqual({
    x: ['Dec 2025', 'Jan 2026', 'Feb 2026'],
    series: [
      ['rent', [900, 0, 950]],
      ['food', [0.1, 0, 0]],
    ],
  })
})

test('an average of no rows is missing, not zero', () => {
  const rows = [
    ['2026-01-01', 'rent', 900],
    ['2026-03-01', 'food', 20],
  ]
  expect(shown(drawn(rows, { y: 'avg Amount', by: 'Kind' }))).toEqual({
    x: ['Jan 2026', 'Mar 2026'],
    series: [
      ['rent', [900, null]],
      ['food', [null, 20]],
    ],
  })
})

test('of many series the smallest are added up, but averages are not', () => {
  const rows = Array.from({ length: 9 }, (_, n) => ['2026-01-01', `kind ${n}`, n + 0.1])
  const found = shown(drawn(rows, { by: 'Kind' })) as { series: [string, (number | null)[]][] }
  expect(found.series.map(([label]) => label)).toEqual([...[8, 7, 6, 5, 4, 3].map((n) => `kind ${n}`), 'other'])
  expect(found.series.at(-1)![1]).toEqual([3.3])
  expect(shown(drawn(rows, { y: 'avg Amount', by: 'Kind' }))).toMatch('more than 7 different Kind')
})

test('names are drawn as bars, the largest first, days as times', () => {
  expect(chartQuery(chosen({ x: 'Kind' }))).toContain('ORDER BY `total of Amount` DESC\nLIMIT 50')
  const bars = drawn([['rent', 900]], { x: 'Kind' })
  expect('chart' in bars && bars.chart.series[0]!.bars).toBe(true)
  expect(shown(drawn([['2026-01-05', 1]], { per: 'week' }))).toMatchObject({ x: [Date.parse('2026-01-05') / 1000] })
  expect(shown(drawn([], {}))).toBe('There are no rows to draw.')
})
