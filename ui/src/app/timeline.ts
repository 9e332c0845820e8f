// Counts by day as few steps of equal length, for a timeline.

export interface TimeStep {
  label: string
  since: string // the first day
  until: string // the last day
  count: number
}

const MAX_STEPS = 30
const DAY_MS = 24 * 3600 * 1000
const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec']

const dayNumber = (day: string) => Math.floor(Date.parse(day) / DAY_MS)
const dayOf = (number: number) => new Date(number * DAY_MS).toISOString().slice(0, 10)

/** Days, weeks, or periods of months, whichever are few enough. Days are in UTC. */
export function timeSteps(days: Record<string, number>): TimeStep[] {
  const known = Object.keys(days).sort()
  if (!known.length) return []
  const [first, last] = [known[0]!, known[known.length - 1]!]
  const length = dayNumber(last) - dayNumber(first) + 1
  const steps =
    length <= MAX_STEPS
      ? daySteps(first, last, 1)
      : length <= 7 * MAX_STEPS
        ? daySteps(first, last, 7)
        : months(first, last)
  for (const day of known) steps.find(({ until }) => day <= until)!.count += days[day]!
  return steps
}

function daySteps(first: string, last: string, length: number): TimeStep[] {
  const steps: TimeStep[] = []
  for (let day = dayNumber(first); day <= dayNumber(last); day += length) {
    const [since, until] = [dayOf(day), dayOf(day + length - 1)]
    steps.push({ label: length === 1 ? since : `${since} to ${until}`, since, until, count: 0 })
  }
  return steps
}

function months(first: string, last: string): TimeStep[] {
  const index = (day: string) => Number(day.slice(0, 4)) * 12 + Number(day.slice(5, 7)) - 1
  const firstDay = (month: number) => new Date(Date.UTC(Math.floor(month / 12), month % 12, 1))
  const name = (month: number) => `${MONTHS[month % 12]!} ${Math.floor(month / 12)}`
  const length = Math.ceil((index(last) - index(first) + 1) / MAX_STEPS)
  const steps: TimeStep[] = []
  for (let month = index(first); month <= index(last); month += length) {
    const since = firstDay(month).toISOString().slice(0, 10)
    const until = dayOf(firstDay(month + length).getTime() / DAY_MS - 1)
    const label = length === 1 ? name(month) : `${name(month)} to ${name(month + length - 1)}`
    steps.push({ label, since, until, count: 0 })
  }
  return steps
}
