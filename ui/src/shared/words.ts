/** How values are written for people. */

export const number = (value: number) => value.toLocaleString('en-US')

export const plural = (count: number, one: string, many = one + 's') => `${number(count)} ${count === 1 ? one : many}`

export function bytes(size: number): string {
  const units = ['bytes', 'kB', 'MB', 'GB', 'TB']
  let at = 0
  for (; size >= 1000 && at < units.length - 1; at++) size /= 1000
  return `${at ? size.toFixed(1) : size} ${units[at]}`
}

export function ago(moment: string | null): string {
  if (!moment) return 'never'
  const seconds = Math.max(0, (Date.now() - Date.parse(moment)) / 1000)
  const steps: [number, string][] = [
    [60, 'second'],
    [60, 'minute'],
    [24, 'hour'],
    [30, 'day'],
    [12, 'month'],
    [1e9, 'year'],
  ]
  let left = seconds
  for (const [size, name] of steps) {
    if (left < size) return name === 'second' ? 'just now' : `${plural(Math.floor(left), name)} ago`
    left /= size
  }
  return moment
}

export const message = (error: unknown) => (error instanceof Error ? error.message : String(error))

/** What a cell of a table shows. */
export function cell(value: unknown): string {
  if (value === null || value === undefined) return 'null'
  return typeof value === 'object' ? JSON.stringify(value) : String(value)
}
