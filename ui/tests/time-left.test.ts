import { expect, test } from 'vitest'
import { startOf, timeLeft } from '../src/shared/time-left'

const progress = (seconds: number, waiting: number) => ({ at: seconds * 1000, waiting })

test('time left follows the rate that was seen', () => {
  const first = progress(0, 10_000)
  expect(timeLeft(first, progress(10, 9_000))).toBe('about 2 minutes left')
  expect(timeLeft(first, progress(10, 5_000))).toBe('less than a minute left')
  expect(timeLeft(first, progress(60, 9_900))).toBe('about 2 hours left')
})

test('nothing is said before enough was seen, or when all is done', () => {
  expect(timeLeft(progress(0, 100), progress(1, 50))).toBe('')
  expect(timeLeft(progress(0, 100), progress(10, 100))).toBe('')
  expect(timeLeft(progress(0, 100), progress(10, 0))).toBe('')
})

test('more work begins a new measurement', () => {
  const first = startOf(null, progress(0, 10))
  expect(startOf(first, progress(5, 8))).toBe(first)
  const again = progress(9, 500)
  expect(startOf(first, again)).toBe(again)
})
