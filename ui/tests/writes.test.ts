import { expect, test } from 'vitest'
import { byDayAndAuthor, dayLabel, UNKNOWN_AUTHOR, type Write } from '../src/app/writes'

const write = (
  title: string,
  at: string,
  client: string | null,
  source: Write['source'] = null,
  origin: string | null = null,
): Write => ({
  family: 'notes',
  namespace: null,
  ref: title,
  title,
  at,
  text: '',
  client,
  source,
  origin,
})

test('writes are grouped by day and by who wrote them, in their order', () => {
  const writes = [
    write('a', '2026-01-02T12:00:00Z', 'codex'),
    write('b', '2026-01-02T11:30:00Z', 'codex', 'mcp', 'web app'),
    write('c', '2026-01-02T11:00:00Z', 'codex'),
    write('d', '2026-01-01T12:00:00Z', null),
    write('e', '2026-01-01T11:00:00Z', null, null, 'cursor with key laptop'),
    write('f', '2026-01-01T10:00:00Z', null, 'ui'),
  ]
  const titles = byDayAndAuthor(writes).map(([day, authors]) => [
    day,
    authors.map(([author, items]) => [author, items.map((item) => item.title)]),
  ])
  expect(titles).toEqual([
    ['2026-01-02', [['codex', ['a', 'c']], ['you, in this web app', ['b']]]],
    ['2026-01-01', [[UNKNOWN_AUTHOR, ['d']], ['cursor with key laptop', ['e']], ['written here', ['f']]]],
  ]) // prettier-ignore
})

test('days have names', () => {
  const now = Date.parse('2026-01-02T12:00:00Z')
  expect(['2026-01-02', '2026-01-01', '2025-12-31'].map((day) => dayLabel(day, now))).toEqual([
    'Today',
    'Yesterday',
    'Wednesday, December 31, 2025',
  ])
  expect(dayLabel('2026-01-02', Date.parse('2026-03-01T12:00:00Z'))).toBe('Friday, January 2')
})
