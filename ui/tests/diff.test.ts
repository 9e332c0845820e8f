import { expect, test } from 'vitest'
import { diff } from '../src/app/diff'

const marked = (before: string, after: string) => diff(before, after).map(([mark, line]) => mark + line)

test('kept, removed and added lines', () => {
  expect(marked('a\nb\nc', 'a\nx\nc\nd')).toEqual([' a', '-b', '+x', ' c', '+d'])
})

test('equal and empty texts', () => {
  expect(marked('a\nb', 'a\nb')).toEqual([' a', ' b'])
  expect(marked('', 'a')).toEqual(['-', '+a'])
})

test('the difference turns the first text into the second', () => {
  const [before, after] = ['one\ntwo\ntwo\nthree', 'two\nthree\ntwo\nfour']
  const lines = diff(before, after)
  const side = (without: string) => lines.filter(([mark]) => mark !== without).map(([, line]) => line)
  expect(side('+').join('\n')).toBe(before)
  expect(side('-').join('\n')).toBe(after)
})

test('texts too long to compare are shown without marks', () => {
  const long = 'x\n'.repeat(2100)
  expect(new Set(diff(long, long + 'y').map(([mark]) => mark))).toEqual(new Set([' ']))
})
