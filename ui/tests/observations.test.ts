import { expect, test } from 'vitest'
import { observationsJson, observationsOf, observationsText } from '../src/app/observations'

test('observations are the same after they were shown and read again', () => {
  const before = ['has a window', 'two\nlines\n\n  indented', '- a dash', 'ends so\n', 'from\r\nWindows', '* star']
  expect(observationsOf(observationsText(before), before)).toEqual(before)
})

test('lines without a dash are observations too, and empty ones are none', () => {
  expect(observationsOf('first\n\n- second\n* third\n- \n- second')).toEqual(['first', 'second', 'third'])
  expect(observationsOf('  \n')).toEqual([])
})

test('characters that YAML refuses are escaped', () => {
  expect(observationsJson(['a\u007fb', '😀'])).toBe('["a\\u007fb","😀"]')
})
