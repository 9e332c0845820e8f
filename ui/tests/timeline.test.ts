import { expect, test } from 'vitest'
import { timeSteps } from '../src/app/timeline'

test('a short time has a step for each day, also for those without notes', () => {
  const steps = timeSteps({ '2026-02-28': 2, '2026-03-02': 1 })
  expect(steps.map(({ since, until, count }) => [since, until, count])).toEqual([
    ['2026-02-28', '2026-02-28', 2],
    ['2026-03-01', '2026-03-01', 0],
    ['2026-03-02', '2026-03-02', 1],
  ])
})

test('longer times have weeks, then months, then several months', () => {
  const weeks = timeSteps({ '2026-01-01': 1, '2026-01-07': 1, '2026-03-31': 3 })
  expect(weeks.length).toBe(13)
  expect([weeks[0]!.count, weeks[12]!.count]).toEqual([2, 3])
  const months = timeSteps({ '2025-01-15': 1, '2026-02-28': 4 })
  expect(months.length).toBe(14)
  expect(months[13]).toEqual({ label: 'Feb 2026', since: '2026-02-01', until: '2026-02-28', count: 4 })
  const years = timeSteps({ '2016-01-01': 1, '2026-12-31': 1 })
  expect(years.length).toBeLessThanOrEqual(30)
  expect(years.reduce((sum, { count }) => sum + count, 0)).toBe(2)
})

test('nothing has no steps', () => expect(timeSteps({})).toEqual([]))
