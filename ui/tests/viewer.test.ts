import { expect, test } from 'vitest'
import { fromBase64, toBase64 } from '../src/shared/base64'
import { formatOf, isTableName, tableName } from '../src/viewer/files'
import { formatViewState, INITIAL_STATE, parseViewState, serialize } from '../src/viewer/view-state'

test.each([
  ['orders.csv', 'orders'],
  ['2026-list.v2.csv', 'table_2026_list_v2'],
  ['_mcp.json', 'mcp'],
  ['Ä.csv', 'imported'],
])('the table of %s', (file, table) => {
  expect(tableName(file)).toBe(table)
  expect(isTableName(table)).toBe(true)
})

test('formats by extension', () => {
  expect(['a.CSV', 'a.ndjson', 'a.db', 'a.txt', 'a'].map(formatOf)).toEqual(['csv', 'json', 'db', undefined, undefined])
})

test('base64 of many bytes and back', () => {
  const bytes = Uint8Array.from({ length: 100_000 }, (_, index) => index % 256)
  const text = Buffer.from(bytes).toString('base64')
  expect(toBase64(bytes) === text).toBe(true)
  expect(Buffer.compare(fromBase64(text), bytes)).toBe(0)
})

test('an address holds the whole state', () => {
  const state = {
    table: 'orders',
    tab: 'sql' as const,
    rows: { sort: 'price', descending: true, search: 'ann', filters: { buyer: '=Ann' } },
    sql: 'SELECT 1',
    chart: { kind: 'lines' as const, x: 'day', y: 'total', by: 'kind' },
  }
  const query = formatViewState(state)
  expect(query).toEqual({
    table: 'orders',
    tab: 'sql',
    sort: '-price',
    search: 'ann',
    query: 'SELECT 1',
    kind: 'lines',
    x: 'day',
    y: 'total',
    by: 'kind',
    'is.buyer': '=Ann',
  })
  expect(parseViewState(query)).toEqual(state)
})

test('an unknown tab and an empty address show the rows', () => {
  expect(parseViewState({ tab: 'toString' }).tab).toBe('data')
  expect(serialize(parseViewState({}))).toBe(serialize(INITIAL_STATE))
})
