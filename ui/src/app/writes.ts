// Groups of the latest writes.
import type { Schemas } from '../shared/api-types'
import { LOCALE } from '../shared/locale'

export type Write = Schemas['WriteShown']

export const UNKNOWN_AUTHOR = 'not recorded who wrote it'

const DAY_MS = 24 * 3600 * 1000

const localDay = (time: number) => {
  const date = new Date(time)
  return [date.getFullYear(), date.getMonth() + 1, date.getDate()]
    .map((part) => String(part).padStart(2, '0'))
    .join('-')
}

export function grouped<T>(items: T[], key: (item: T) => string): [string, T[]][] {
  const found = new Map<string, T[]>()
  for (const item of items) found.set(key(item), [...(found.get(key(item)) ?? []), item])
  return [...found]
}

/** The latest day first, in the time zone of the browser. */
export const byDayAndAuthor = (writes: Write[]): [day: string, authors: [string, Write[]][]][] =>
  grouped(writes, (write) => localDay(Date.parse(write.at))).map(([day, items]) => [
    day,
    grouped(items, (write) => (write.source === 'ui' ? 'ui' : (write.client ?? write.source ?? UNKNOWN_AUTHOR))),
  ])

export function dayLabel(day: string, now = Date.now()): string {
  if (day === localDay(now)) return 'Today'
  if (day === localDay(now - DAY_MS)) return 'Yesterday'
  const format = { weekday: 'long', day: 'numeric', month: 'long', timeZone: 'UTC' } as const
  const year = day.slice(0, 4) === localDay(now).slice(0, 4) ? {} : ({ year: 'numeric' } as const)
  return new Date(`${day}T00:00:00Z`).toLocaleDateString(LOCALE, { ...format, ...year })
}
