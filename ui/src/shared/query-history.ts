// Queries that ran in this browser, and those that the user saved under a name, for each portal.
export interface SavedQuery {
  name: string // empty in the history
  sql: string
}

export interface Queries {
  saved: SavedQuery[]
  history: SavedQuery[] // the last one first
}

export const QUERIES_PREFIX = 'queries:'
const MAX_HISTORY = 20
const MAX_SAVED = 100
export const NO_QUERIES: Queries = { saved: [], history: [] }

type Store = Pick<Storage, 'getItem' | 'setItem'>

const isQuery = (value: unknown): value is SavedQuery =>
  typeof value === 'object' &&
  value !== null &&
  typeof (value as SavedQuery).name === 'string' &&
  typeof (value as SavedQuery).sql === 'string'

/** What cannot be read counts as empty. */
export function readQueries(store: Store, portalUri: string): Queries {
  try {
    const found = JSON.parse(store.getItem(QUERIES_PREFIX + portalUri) ?? '{}') as Partial<Queries>
    const list = (value: unknown) => (Array.isArray(value) ? value.filter(isQuery) : [])
    return { saved: list(found.saved), history: list(found.history) }
  } catch {
    return NO_QUERIES
  }
}

export const withRun = (queries: Queries, sql: string): Queries => ({
  ...queries,
  history: [{ name: '', sql }, ...queries.history.filter((one) => one.sql !== sql)].slice(0, MAX_HISTORY),
})

export const withSaved = (queries: Queries, name: string, sql: string): Queries => ({
  ...queries,
  saved: [{ name, sql }, ...queries.saved.filter((one) => one.name !== name)].slice(0, MAX_SAVED),
})

export const withoutSaved = (queries: Queries, name: string): Queries => ({
  ...queries,
  saved: queries.saved.filter((one) => one.name !== name),
})

/** A full or forbidden store keeps what it has. */
export function writeQueries(store: Store, portalUri: string, queries: Queries): void {
  try {
    store.setItem(QUERIES_PREFIX + portalUri, JSON.stringify(queries))
  } catch {
    // the queries stay on this page until it is left
  }
}
