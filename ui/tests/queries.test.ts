import { expect, test } from 'vitest'
import { chooseColumns, typeName } from '../src/viewer/column-choices'
import { readQueries, withRun, withSaved, withoutSaved, writeQueries } from '../src/shared/query-history'
import { formatViewState, INITIAL_STATE, parseViewState } from '../src/viewer/view-state'

function memoryStore() {
  const kept = new Map<string, string>()
  return {
    getItem: (key: string) => kept.get(key) ?? null,
    setItem: (key: string, value: string) => void kept.set(key, value),
  }
}

test('queries are kept for each portal, the last one first and once', () => {
  const store = memoryStore()
  const ran = ['SELECT 1', 'SELECT 2', 'SELECT 1'].reduce(withRun, readQueries(store, 'mem://a/b'))
  writeQueries(store, 'mem://a/b', withSaved(ran, 'one', 'SELECT 1'))
  const found = readQueries(store, 'mem://a/b')
  expect(found.history.map((query) => query.sql)).toEqual(['SELECT 1', 'SELECT 2'])
  expect(found.saved).toEqual([{ name: 'one', sql: 'SELECT 1' }])
  expect(withoutSaved(found, 'one').saved).toEqual([])
  expect(readQueries(store, 'mem://a/c').history).toEqual([])
})

test('what another program wrote there counts as empty', () => {
  for (const text of ['no json', 'null', '{"history": [1, {"sql": 2}], "saved": "x"}']) {
    const store = { getItem: () => text, setItem: () => {} }
    expect(readQueries(store, 'mem://a/b')).toEqual({ saved: [], history: [] })
  }
})

test('an address tells no series from an automatic one', () => {
  const state = { ...INITIAL_STATE, tab: 'sql' as const, sql: 'SELECT 1', chart: { by: '' } }
  expect(parseViewState(formatViewState(state)).chart.by).toBe('')
  expect(parseViewState({ kind: 'toString' }).chart).toEqual({})
})

test('an import names only the columns that the user changed', () => {
  const columns = [
    { name: 'E-Mail', column: 'E_Mail', type: 'String' },
    { name: 'n', column: 'n', type: 'Int64' },
  ]
  expect(chooseColumns(columns, {})).toEqual({})
  expect(chooseColumns(columns, { 'E-Mail': { name: 'mail' }, n: { name: 'n', type: 'String' } })).toEqual({
    mapping: { 'E-Mail': 'mail' },
    types: { n: 'String' },
  })
  expect(typeName("DateTime64(3, 'UTC')")).toBe('date and time')
  expect(typeName('Array(String)')).toBe('Array(String)')
})
