import { expect, test } from 'vitest'
import type { QueryResult } from '../src/shared/api-types'
import { MAX_SERIES, drawResult, type ChartChoice } from '../src/viewer/result-chart'

function result(columns: string[], rows: unknown[][]): QueryResult {
  return {
    columns: columns.map((name) => ({ name, type: 'String' })),
    rows: rows.map((row) => Object.fromEntries(columns.map((name, at) => [name, row[at]]))),
    rowCount: rows.length,
    truncated: false,
    elapsedMs: 1,
  }
}

/** The chart, or null where there is none. */
function resultChart(found: QueryResult, choice?: ChartChoice) {
  const drawing = drawResult(found, choice)
  return 'chart' in drawing ? drawing.chart : null
}

const MONTHS = ['2026-01-01', '2026-02-01']

test('several rows for a time become a series for each group', () => {
  const rows = [
    [MONTHS[1], 'rent', 900],
    [MONTHS[0], 'rent', 800],
    [MONTHS[0], 'food', 200],
  ]
  const chart = resultChart(result(['month', 'kind', 'total'], rows))!
  expect(chart.x).toEqual(MONTHS.map((day) => Date.parse(day) / 1000))
  expect(chart.series.map(({ label, values }) => [label, values])).toEqual([
    ['rent', [800, 900]],
    ['food', [200, null]],
  ])
  expect(chart.label).toBe('Chart of total by month')
})

test('a line over time never joins different groups, even with one row for each time', () => {
  const chart = resultChart(
    result(
      ['day', 'kind', 'n'],
      [
        [MONTHS[0], 'a', 1],
        [MONTHS[1], 'b', 2],
      ],
    ),
  )!
  expect(chart.series.map((line) => line.label)).toEqual(['a', 'b'])
})

test('what cannot be drawn truly is a table', () => {
  const twice = [
    ['Ann', 1],
    ['Ann', 2],
  ]
  expect(resultChart(result(['name', 'n'], twice))).toBeNull()
  const repeated = [
    [MONTHS[0], 'a', 1],
    [MONTHS[0], 'a', 2],
  ]
  expect(resultChart(result(['day', 'kind', 'n'], repeated))).toBeNull()
  const many = Array.from({ length: MAX_SERIES + 1 }, (_, at) => [MONTHS[0], `kind ${at}`, at])
  expect(resultChart(result(['day', 'kind', 'n'], many))).toBeNull()
  expect(resultChart(result(['name', 'city'], [['a', 'b'], ['c', 'd']]))).toBeNull() // prettier-ignore
})

test('names are bars, or points if there are several numbers', () => {
  const rows = [
    ['Ann', 1, 2],
    ['Bob', 3, null],
  ]
  expect(
    resultChart(
      result(
        ['name', 'n'],
        rows.map((row) => row.slice(0, 2)),
      ),
    )!.series[0],
  ).toMatchObject({ bars: true })
  const two = resultChart(result(['name', 'n', 'm'], rows))!.series
  expect(two.map(({ values, points }) => [values, points])).toEqual([
    [[1, 3], true],
    [[2, null], true],
  ])
})

test('rows with a column that a chart would not show are a table at first', () => {
  const rows = [
    [1, 'Ann', 9],
    [2, 'Bob', 8],
  ]
  expect(resultChart(result(['id', 'buyer', 'price'], rows))).toMatchObject({ isWhole: false })
  const shown = rows.map(([id, , price]) => [id, price])
  expect(resultChart(result(['id', 'price'], shown))).toMatchObject({ isWhole: true })
})

test('a user chooses the axis, the values, the series and the kind', () => {
  const rows = [
    [MONTHS[0], 'rent', 900, 1],
    [MONTHS[1], 'rent', 950, 2],
    [MONTHS[0], 'food', 200, 3],
    [MONTHS[1], 'food', 250, 4],
  ]
  const found = result(['month', 'kind', 'total', 'count'], rows)
  const bars = resultChart(found, { kind: 'bars', y: 'count' })!
  expect(bars.series.map(({ label, values, bars }) => [label, values, bars])).toEqual([
    ['rent', [1, 2], true],
    ['food', [3, 4], true],
  ])
  const byKind = resultChart(found, { x: 'kind', by: 'month' })!
  expect(byKind.x).toEqual(['rent', 'food'])
  expect(byKind.series.map((one) => one.label)).toEqual(MONTHS)
  expect(drawResult(found, { by: '' })).toEqual({
    problem: 'Several rows have the same month: choose a column for the series, or group by it in the query.',
  })
})
