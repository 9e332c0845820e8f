import { expect, test } from 'vitest'
import { describeFilter, filtersFromQuery, notesQuery } from '../src/app/note-filters'

test('filters of the address become the typed query of the API', () => {
  const filters = filtersFromQuery({ q: 'words', tag: 'ops', min_importance: '0.7', archived: 'true', source: 'ui' })
  expect(filters).toMatchObject({ tag: 'ops', namespace: '', folder: '' })
  expect(notesQuery(filters)).toEqual({
    tag: ['ops'],
    min_importance: 0.7,
    archived: true,
    source: 'ui',
    namespace: '',
    folder: '',
    client: '',
    since: '',
    until: '',
  })
})

test('without filters nothing narrows the list', () => {
  const { tag, source, min_importance, archived } = notesQuery(filtersFromQuery({}))
  expect([tag, source, min_importance, archived]).toEqual([undefined, undefined, undefined, undefined])
})

test.each([
  ['tag', 'ops', '#ops'],
  ['source', 'mcp', 'by agents'],
  ['source', 'other', 'other'],
  ['min_importance', '0.5', 'importance 0.5 or more'],
  ['folder', 'plans', 'folder plans'],
  ['archived', 'true', 'archived'],
] as const)('%s %s', (name, value, text) => expect(describeFilter(name, value)).toBe(text))
