// Values as texts for people.
import { LOCALE } from './locale'

export const number = (value: number) => value.toLocaleString(LOCALE)

export const plural = (count: number, one: string, many = one + 's') => `${number(count)} ${count === 1 ? one : many}`

export function bytes(size: number): string {
  const units = ['bytes', 'kB', 'MB', 'GB', 'TB']
  let unit = 0
  for (; size >= 1000 && unit < units.length - 1; unit++) size /= 1000
  return `${unit ? size.toFixed(1) : size} ${units[unit]!}`
}

const UNITS: [string, number][] = [
  ['second', 60],
  ['minute', 60],
  ['hour', 24],
  ['day', 30],
  ['month', 12],
  ['year', Infinity],
]

export function ago(time: string | null | undefined, now = Date.now()): string {
  if (!time) return 'never'
  let age = Math.max(0, (now - Date.parse(time)) / 1000)
  for (const [unit, size] of UNITS) {
    if (age < size) return unit === 'second' ? 'just now' : `${plural(Math.floor(age), unit)} ago`
    age /= size
  }
  return time
}

export const errorMessage = (error: unknown) => (error instanceof Error ? error.message : String(error))

/** The text of a table cell. */
export function cell(value: unknown): string {
  if (value === null || value === undefined) return 'null'
  return typeof value === 'string' ? value : JSON.stringify(value)
}

const twoDigits = (value: number) => String(value).padStart(2, '0')

/** `2026-01-31`, in the time zone of the browser. */
export const localDay = (date: Date) =>
  `${date.getFullYear()}-${twoDigits(date.getMonth() + 1)}-${twoDigits(date.getDate())}`

/** `12:30`, in the time zone of the browser. */
export const localClock = (date: Date) => `${twoDigits(date.getHours())}:${twoDigits(date.getMinutes())}`

/** `2026-01-31T12:30:59Z` as `2026-01-31 12:30`, in the time zone of the browser. */
export function shortTime(time: string | null | undefined): string {
  if (!time) return '–'
  const date = new Date(time)
  return Number.isNaN(date.getTime()) ? time : `${localDay(date)} ${localClock(date)}`
}
