// Groups of the latest writes.
import type { Schemas } from '../shared/api-types'
import { localDay } from '../shared/format'
import { LOCALE } from '../shared/locale'
import { SOURCES } from './note-filters'

export type Write = Schemas['WriteShown']

export const UNKNOWN_AUTHOR = 'not recorded who wrote it'

const DAY_MS = 24 * 3600 * 1000

/** Who wrote, as the server names them, in words for the reader. */
export const originLabel = (origin: string) => (origin === 'web app' ? 'you, in this web app' : origin)

/** Of the last write. The journal does not know what is older than itself, but a note knows its first client. */
function authorOf({ origin, client, source }: Write): string {
  if (origin) return originLabel(origin)
  return client ?? (source ? SOURCES[source] : UNKNOWN_AUTHOR)
}

export function grouped<T>(items: T[], key: (item: T) => string): [string, T[]][] {
  const found = new Map<string, T[]>()
  for (const item of items) found.set(key(item), [...(found.get(key(item)) ?? []), item])
  return [...found]
}

/** The latest day first, in the time zone of the browser. */
export const byDayAndAuthor = (writes: Write[]): [day: string, authors: [string, Write[]][]][] =>
  grouped(writes, (write) => localDay(new Date(write.at))).map(([day, items]) => [day, grouped(items, authorOf)])

export function dayLabel(day: string, now = Date.now()): string {
  if (day === localDay(new Date(now))) return 'Today'
  if (day === localDay(new Date(now - DAY_MS))) return 'Yesterday'
  const format = { weekday: 'long', day: 'numeric', month: 'long', timeZone: 'UTC' } as const
  const year = day.slice(0, 4) === localDay(new Date(now)).slice(0, 4) ? {} : ({ year: 'numeric' } as const)
  return new Date(`${day}T00:00:00Z`).toLocaleDateString(LOCALE, { ...format, ...year })
}
