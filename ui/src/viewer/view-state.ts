// What the viewer shows, as an address can hold it.
import { CHART_KINDS, PERIODS, type ChartChoice, type ChartKind } from './result-chart'
import { ALL_ROWS, type RowQuery } from './rows'

export const TABS = { data: 'Data', charts: 'Charts', schema: 'Schema', sql: 'SQL', statistics: 'Statistics' } as const
export type Tab = keyof typeof TABS

export interface ViewState {
  table?: string
  tab: Tab
  rows: RowQuery
  sql: string
  chart: ChartChoice
}

export const INITIAL_STATE: ViewState = { tab: 'data', rows: ALL_ROWS, sql: '', chart: {} }

export interface Permissions {
  write: boolean
  delete: boolean
}

type Query = Record<string, string | undefined>

const FILTER_PREFIX = 'is.'
const NO_SERIES = '-' // an address leaves out what is empty
const isKind = (name: string | undefined): name is ChartKind => name !== undefined && Object.hasOwn(CHART_KINDS, name)
const isPeriod = (name: string | undefined): name is keyof typeof PERIODS =>
  name !== undefined && Object.hasOwn(PERIODS, name)
const isTab = (name: string | undefined): name is Tab => name !== undefined && Object.hasOwn(TABS, name)

export function parseViewState(query: Query): ViewState {
  const { table, tab, sort, search = '', query: sql = '', kind, x, y, by, per, ...rest } = query
  const filters = Object.entries(rest)
    .filter((pair): pair is [string, string] => pair[0].startsWith(FILTER_PREFIX) && pair[1] !== undefined)
    .map(([name, value]) => [name.slice(FILTER_PREFIX.length), value])
  return {
    table,
    tab: isTab(tab) ? tab : 'data',
    rows: {
      sort: sort?.replace(/^-/, ''),
      descending: Boolean(sort?.startsWith('-')),
      search,
      filters: Object.fromEntries(filters) as Record<string, string>,
    },
    sql,
    chart: {
      kind: isKind(kind) ? kind : undefined,
      x,
      y,
      by: by === NO_SERIES ? '' : by,
      per: isPeriod(per) ? per : undefined,
    },
  }
}

export function formatViewState({ table, tab, rows, sql, chart }: ViewState): Query {
  const filters = Object.entries(rows.filters).map(([name, value]) => [FILTER_PREFIX + name, value])
  return {
    table,
    tab: tab === 'data' ? undefined : tab,
    sort: rows.sort && (rows.descending ? '-' : '') + rows.sort,
    search: rows.search,
    query: sql,
    ...chart,
    by: chart.by === '' ? NO_SERIES : chart.by,
    ...(Object.fromEntries(filters) as Query),
  }
}

/** Two states are equal if these texts are. */
export const serialize = ({ table, tab, rows, sql, chart }: ViewState) =>
  JSON.stringify([
    table,
    tab,
    rows.sort,
    rows.descending,
    rows.search,
    rows.filters,
    sql,
    chart.kind,
    chart.x,
    chart.y,
    chart.by,
    chart.per,
  ])
