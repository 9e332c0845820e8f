import { expect, test } from 'vitest'
import { ago, bytes, cell, errorMessage, number, plural, shortTime } from '../src/shared/format'

test('numbers have separators, and plurals follow the count', () => {
  expect(number(1234567)).toBe('1,234,567')
  expect(plural(1, 'row')).toBe('1 row')
  expect(plural(2000, 'row')).toBe('2,000 rows')
  expect(plural(2, 'row is', 'rows are')).toBe('2 rows are')
})

test.each([
  [0, '0 bytes'],
  [999, '999 bytes'],
  [1000, '1.0 kB'],
  [1_234_567, '1.2 MB'],
  [5e15, '5000.0 TB'],
])('%d bytes', (size, text) => expect(bytes(size)).toBe(text))

test.each([
  [0, 'just now'],
  [59, 'just now'],
  [60, '1 minute ago'],
  [3599, '59 minutes ago'],
  [86_400, '1 day ago'],
  [40 * 86_400, '1 month ago'],
  [800 * 86_400, '2 years ago'],
])('%d seconds ago', (seconds, text) => {
  const now = Date.parse('2026-05-01T12:00:00Z')
  expect(ago(new Date(now - seconds * 1000).toISOString(), now)).toBe(text)
})

test('a time that never was, and one in the future', () => {
  expect(ago(null)).toBe('never')
  expect(ago('2026-05-01T12:00:10Z', Date.parse('2026-05-01T12:00:00Z'))).toBe('just now')
})

test('cells show texts as they are and everything else as JSON', () => {
  expect([cell(null), cell(undefined), cell('a'), cell(1.5), cell(true), cell({ a: [1] })]).toEqual([
    'null',
    'null',
    'a',
    '1.5',
    'true',
    '{"a":[1]}',
  ])
})

test('times and errors', () => {
  expect(shortTime('no time')).toBe('no time')
  expect(shortTime(null)).toBe('–')
  expect(errorMessage(new Error('no'))).toBe('no')
  expect(errorMessage('text')).toBe('text')
})

test.each([
  ['UTC', '2026-01-31 20:30'],
  ['Asia/Tokyo', '2026-02-01 05:30'],
  ['America/New_York', '2026-01-31 15:30'],
])('times are in the time zone of the browser: %s', (zone, expected) => {
  const before = process.env.TZ
  try {
    process.env.TZ = zone
    expect(shortTime('2026-01-31T20:30:59Z')).toBe(expected)
  } finally {
    process.env.TZ = before
  }
})
