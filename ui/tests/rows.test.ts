import { expect, test } from 'vitest'
import { ALL_ROWS, condition, CUT_MARK, deleteConditions, select } from '../src/viewer/rows'

const table = (...columns: [name: string, type: string, primary?: boolean][]) => ({
  name: 'orders',
  rows: 3,
  bytes: 1,
  columns: columns.map(([name, type, primary = false]) => ({ name, type, primary })),
})
const ORDERS = table(['id', 'UUID', true], ['price', 'Float64'], ['at', 'DateTime64'], ['note', 'String'])
const filtered = (column: string, text: string) => condition(ORDERS, { ...ALL_ROWS, filters: { [column]: text } })

test.each([
  ['price', '>5', ' WHERE `price` > {p0:Float64}', { p0: 5 }],
  ['price', '>x', ' WHERE toString(`price`) > {p0:String}', { p0: 'x' }],
  ['at', '<=2026-01-31', ' WHERE `at` <= parseDateTimeBestEffort({p0:String})', { p0: '2026-01-31' }],
  ['note', '!= Ann', ' WHERE toString(`note`) != {p0:String}', { p0: 'Ann' }],
  ['note', 'null', ' WHERE isNull(`note`)', {}],
  ['note', '!null', ' WHERE isNotNull(`note`)', {}],
  ['note', 'Ann', ' WHERE positionCaseInsensitiveUTF8(toString(`note`), {p0:String}) > 0', { p0: 'Ann' }],
  ['note', '  ', '', {}],
])('the filter of %s: %s', (column, text, sql, parameters) => {
  expect(filtered(column, text)).toEqual({ sql, parameters })
})

test('texts are bound, never part of the statement', () => {
  const attack = "'; DROP TABLE x; --"
  const { sql, parameters } = condition(ORDERS, { ...ALL_ROWS, search: attack, filters: { note: attack } })
  expect(sql).not.toContain('DROP')
  expect(Object.values(parameters)).toEqual(Array(5).fill(attack)) // the filter, and the search in four columns
  expect(select(table(['a`b', 'String']), ALL_ROWS).sql).toBe('SELECT * FROM `orders` ORDER BY `a\\`b`')
})

test('the order names every scalar column, so that pages do not overlap', () => {
  const messages = table(['id', 'UUID', true], ['timestamp', 'DateTime64'], ['meta', 'JSON'], ['text', 'String'])
  expect(select(messages, ALL_ROWS).sql).toBe('SELECT * FROM `orders` ORDER BY `timestamp`, `id`, `text`')
  expect(select(messages, { ...ALL_ROWS, sort: 'text', descending: true }).sql).toBe(
    'SELECT * FROM `orders` ORDER BY `text` DESC, `id`, `timestamp`',
  )
})

test('rows are deleted by their ids, or by all their scalar values', () => {
  expect(deleteConditions(ORDERS, [{ id: 'a' }, { id: 'b' }])).toEqual([{ id: ['a', 'b'] }])
  const plain = table(['a', 'String'], ['b', 'Int64'], ['c', 'JSON'])
  expect(deleteConditions(plain, [{ a: 'x', c: {} }])).toEqual([{ a: 'x', b: null }])
})

test('a row that was cut is not deleted', () => {
  expect(() => deleteConditions(ORDERS, [{ id: 'a', note: 'long' + CUT_MARK }])).toThrow('too long')
})
