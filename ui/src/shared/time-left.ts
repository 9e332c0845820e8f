// How long work still takes, from how far it has come while the page watched it.
import { plural } from './format'

export interface Progress {
  readonly at: number // milliseconds
  readonly waiting: number
}

const MIN_WATCHED_MS = 3000 // before that the rate is that of a single batch

/** The progress to measure from: the first that was seen of this work. */
export const startOf = (first: Progress | null, now: Progress): Progress =>
  first === null || now.waiting > first.waiting ? now : first

/** Such as `about 2 minutes left`; empty while too little has been seen. */
export function timeLeft(first: Progress, now: Progress): string {
  const done = first.waiting - now.waiting
  const watched = now.at - first.at
  if (now.waiting === 0 || done <= 0 || watched < MIN_WATCHED_MS) return ''
  const minutes = (now.waiting * watched) / done / 60_000
  if (minutes < 1) return 'less than a minute left'
  return minutes < 90
    ? `about ${plural(Math.round(minutes), 'minute')} left`
    : `about ${plural(Math.round(minutes / 60), 'hour')} left`
}
