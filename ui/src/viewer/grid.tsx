import { Virtualizer, elementScroll, observeElementOffset, observeElementRect } from '@tanstack/virtual-core'
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import type { Column, Row, Table } from '../shared/api-types'
import type { Bridge } from '../shared/bridge'
import { cell, errorMessage, number } from '../shared/format'
import { useScrollCue } from '../shared/scroll'
import { showError } from '../shared/toast'
import { ALL_ROWS, countRows, isScalar, fetchPage, type RowQuery } from './rows'

const ROW_HEIGHT_PX = matchMedia('(pointer: coarse)').matches ? 44 : 30 // as in viewer.css
const CHECK_WIDTH = ROW_HEIGHT_PX > 36 ? `${ROW_HEIGHT_PX}px` : '36px'
const PAGE_ROWS = 10 // where a host shows the viewer inside a conversation
const CHUNK_ROWS = 100 // in one request, where the rows scroll
const KEY_ROWS = 20 // of PageUp and PageDown, where the rows scroll

interface RowSource {
  total: number | null
  error: string | null
  row: (index: number) => Row | undefined
  load: (from: number, to: number) => void
}

/** The rows of the visible part. Responses to a former query are dropped. */
function useRows(
  bridge: Bridge,
  portalUri: string,
  table: Table,
  query: RowQuery,
  revision: number,
  size: number,
): RowSource {
  const key = JSON.stringify([portalUri, table.name, query, revision, size])
  const current = useRef('')
  const chunks = useRef(new Map<number, Row[] | 'pending'>())
  const [total, setTotal] = useState<number | null>(null)
  const [error, setError] = useState<string | null>(null)
  const [, setRenderCount] = useState(0)
  if (current.current !== key) {
    current.current = key
    chunks.current = new Map()
  }
  const runIfCurrent = async <T,>(work: Promise<T>, then: (found: T) => void) => {
    try {
      const found = await work
      if (current.current === key) then(found)
    } catch (error) {
      if (current.current !== key) return
      setError(errorMessage(error))
      setTotal(0)
    }
  }
  useEffect(() => {
    setError(null)
    void runIfCurrent(countRows(bridge, portalUri, table, query), setTotal)
  }, [key])
  const load = (from: number, to: number) => {
    for (let chunk = Math.floor(from / size); chunk * size < to; chunk++) {
      if (chunks.current.has(chunk)) continue
      chunks.current.set(chunk, 'pending')
      void runIfCurrent(fetchPage(bridge, portalUri, table, query, chunk * size, size), (rows) => {
        chunks.current.set(chunk, rows)
        setRenderCount((count) => count + 1)
      })
    }
  }
  const row = (index: number) => {
    const chunk = chunks.current.get(Math.floor(index / size))
    return Array.isArray(chunk) ? chunk[index % size] : undefined
  }
  return { total, error, row, load }
}

function widthPx({ type }: Column): number {
  if (/Int|Float|Bool/.test(type)) return 110
  if (/UUID|Date/.test(type)) return 190
  return /JSON|Array/.test(type) ? 240 : 260
}

interface Props {
  bridge: Bridge
  portalUri: string
  table: Table
  query: RowQuery
  setQuery: (query: RowQuery) => void
  revision: number
  selected: Map<number, Row>
  setSelected: (rows: Map<number, Row>) => void
  onDelete: () => void
  isPaged: boolean // a pager instead of scrolling
  maxSelected: number
}

export function Grid({
  bridge,
  portalUri,
  table,
  query,
  setQuery,
  revision,
  selected,
  setSelected,
  onDelete,
  isPaged,
  maxSelected,
}: Props) {
  const size = isPaged ? PAGE_ROWS : CHUNK_ROWS
  const rows = useRows(bridge, portalUri, table, query, revision, size)
  const total = rows.total ?? 0
  const [current, setCurrent] = useState(0)
  const [shownPage, setShownPage] = useState(0)
  const [, setRenderCount] = useState(0)
  const scroller = useRef<HTMLDivElement>(null)
  useScrollCue(scroller)
  const virtual = useMemo(
    () =>
      new Virtualizer<HTMLDivElement, HTMLElement>({
        count: 0,
        getScrollElement: () => scroller.current,
        estimateSize: () => ROW_HEIGHT_PX,
        overscan: 10,
        scrollToFn: elementScroll,
        observeElementRect,
        observeElementOffset,
        onChange: () => setRenderCount((count) => count + 1),
      }),
    [isPaged],
  )
  virtual.setOptions({ ...virtual.options, count: isPaged ? 0 : total })
  useEffect(() => virtual._didMount(), [virtual])
  useEffect(() => virtual._willUpdate())
  useEffect(() => {
    setCurrent(0)
    setShownPage(0)
    if (scroller.current) scroller.current.scrollTop = 0
  }, [table.name, JSON.stringify(query)])

  const first = shownPage * PAGE_ROWS
  const shown = isPaged
    ? Array.from({ length: Math.max(0, Math.min(PAGE_ROWS, total - first)) }, (_, at) => ({
        index: first + at,
        start: at * ROW_HEIGHT_PX,
      }))
    : virtual.getVirtualItems().map((item) => ({ index: item.index, start: item.start }))
  const from = shown[0]?.index ?? 0
  const to = (shown.at(-1)?.index ?? -1) + 1
  useEffect(() => rows.load(from, to))

  useEffect(() => {
    // A write of another client may have moved the rows: those are not selected any more.
    const unmoved = [...selected].filter(([index, row]) => isEqual(rows.row(index) ?? row, row))
    if (unmoved.length < selected.size) setSelected(new Map(unmoved))
  })

  const toggle = (index: number) => {
    const row = rows.row(index)
    if (!row) return
    const next = new Map(selected)
    if (!next.delete(index)) next.set(index, row)
    setSelected(next)
  }
  const isAllSelected = total > 0 && selected.size >= Math.min(total, maxSelected)
  const toggleAll = async () => {
    if (isAllSelected) return setSelected(new Map())
    try {
      const found = await fetchPage(bridge, portalUri, table, query, 0, Math.min(total, maxSelected))
      setSelected(new Map(found.entries()))
    } catch (error) {
      showError(error)
    }
  }
  const move = (by: number) => {
    const next = Math.max(0, Math.min(total - 1, current + by))
    setCurrent(next)
    if (isPaged) setShownPage(Math.floor(next / PAGE_ROWS))
    else virtual.scrollToIndex(next)
  }
  const steps: Record<string, number> = {
    ArrowDown: 1,
    ArrowUp: -1,
    PageDown: isPaged ? PAGE_ROWS : KEY_ROWS,
    PageUp: isPaged ? -PAGE_ROWS : -KEY_ROWS,
    Home: -1e12,
    End: 1e12,
  }
  const onKey = (event: KeyboardEvent) => {
    if (event.target !== event.currentTarget) return
    const step = steps[event.key]
    if (step) move(step)
    else if (event.key === ' ') toggle(current)
    else if (event.key === 'a' && (event.ctrlKey || event.metaKey)) void toggleAll()
    else if (event.key === 'Delete' && selected.size) onDelete()
    else if (event.key === 'c' && (event.ctrlKey || event.metaKey)) copy(rows.row(current), table)
    else return
    event.preventDefault()
  }
  const sortBy = (name: string) => {
    const isSorted = query.sort === name
    const sort = isSorted && query.descending ? undefined : name
    setQuery({ ...query, sort, descending: isSorted && !query.descending })
  }
  const filter = (name: string, value: string) => {
    const others = Object.entries(query.filters).filter(([other]) => other !== name)
    setQuery({ ...query, filters: Object.fromEntries(value ? [...others, [name, value]] : others) })
  }
  const columns = {
    gridTemplateColumns: [CHECK_WIDTH, ...table.columns.map((column) => `${widthPx(column)}px`)].join(' ') + ' 1fr',
  }
  const isFiltered = Boolean(query.search || Object.keys(query.filters).length)
  return (
    <>
      <div class="grid-scroll" ref={scroller}>
        <div
          role="grid"
          aria-label={`Rows of ${table.name}`}
          aria-rowcount={total + 1}
          aria-colcount={table.columns.length + 1}
          aria-multiselectable="true"
          aria-activedescendant={shown.some((item) => item.index === current) ? `row${current}` : undefined}
          tabIndex={0}
          onKeyDown={onKey}
        >
          <div role="rowgroup" class="grid-head">
            <div role="row" aria-rowindex={1} class="grid-row" style={columns}>
              <span role="columnheader">
                <label class="check">
                  <input
                    type="checkbox"
                    tabIndex={-1}
                    aria-label={
                      total > maxSelected ? `Select the first ${number(maxSelected)} rows` : 'Select all rows'
                    }
                    checked={isAllSelected}
                    disabled={!total}
                    onChange={toggleAll}
                  />
                </label>
              </span>
              {table.columns.map((column) => (
                <span
                  role="columnheader"
                  key={column.name}
                  aria-sort={query.sort !== column.name ? 'none' : query.descending ? 'descending' : 'ascending'}
                >
                  <button
                    class="sort"
                    title={column.type}
                    disabled={!isScalar(column)}
                    onClick={() => sortBy(column.name)}
                  >
                    {column.name}
                    {query.sort === column.name && <i aria-hidden="true" class={query.descending ? 'down' : 'up'} />}
                  </button>
                  <input
                    class="filter"
                    aria-label={`Filter ${column.name}`}
                    placeholder="filter"
                    value={query.filters[column.name] ?? ''}
                    onChange={(event) => filter(column.name, event.currentTarget.value)}
                  />
                </span>
              ))}
            </div>
          </div>
          <div
            role="rowgroup"
            class="grid-body"
            style={{ height: `${isPaged ? shown.length * ROW_HEIGHT_PX : virtual.getTotalSize()}px` }}
          >
            {shown.map(({ index, start }) => {
              const row = rows.row(index)
              return (
                <div
                  role="row"
                  id={`row${index}`}
                  key={index}
                  aria-rowindex={index + 2}
                  aria-selected={selected.has(index)}
                  class={index === current ? 'grid-row current' : 'grid-row'}
                  style={{ ...columns, transform: `translateY(${start}px)` }}
                  onClick={() => setCurrent(index)}
                >
                  <span role="gridcell">
                    {row && (
                      <label class="check">
                        <input
                          type="checkbox"
                          tabIndex={-1}
                          aria-label={`Select row ${index + 1}`}
                          checked={selected.has(index)}
                          onChange={() => toggle(index)}
                        />
                      </label>
                    )}
                  </span>
                  {table.columns.map((column) => (
                    <Cell key={column.name} value={row && row[column.name]} isLoading={!row} />
                  ))}
                </div>
              )
            })}
          </div>
        </div>
        {rows.total === 0 && (
          <p class="empty">
            {rows.error ? (
              <span role="alert">{rows.error} </span>
            ) : isFiltered ? (
              'No rows match. '
            ) : (
              'This table is empty. Import a file to fill it.'
            )}
            {(rows.error || isFiltered) && (
              <button class="link" onClick={() => setQuery(ALL_ROWS)}>
                Clear filters
              </button>
            )}
          </p>
        )}
      </div>
      <div class="pager">
        {isPaged && (
          <button disabled={!shownPage} onClick={() => setShownPage(shownPage - 1)} aria-label="Previous page">
            ‹
          </button>
        )}
        <span aria-live="polite">
          {rows.total === null
            ? 'Counting…'
            : isPaged && total
              ? `${number(first + 1)}–${number(Math.min(total, first + PAGE_ROWS))} of ${number(total)}`
              : `${number(total)} rows`}
        </span>
        {isPaged && (
          <button
            disabled={first + PAGE_ROWS >= total}
            onClick={() => setShownPage(shownPage + 1)}
            aria-label="Next page"
          >
            ›
          </button>
        )}
      </div>
    </>
  )
}

const isEqual = (row: Row, other: Row) => row === other || JSON.stringify(row) === JSON.stringify(other)

function Cell({ value, isLoading }: { value: unknown; isLoading: boolean }) {
  if (isLoading)
    return (
      <span role="gridcell">
        <i class="loading" />
      </span>
    )
  if (value === null || value === undefined)
    return (
      <span role="gridcell">
        <em class="null">null</em>
      </span>
    )
  const text = cell(value)
  return (
    <span
      role="gridcell"
      class={typeof value === 'number' ? 'num' : ''}
      title={text.length > 30 ? text.slice(0, 2000) : undefined}
    >
      {text.slice(0, 500)}
    </span>
  )
}

function copy(row: Row | undefined, table: Table): void {
  const clipboard = navigator.clipboard as Clipboard | undefined // undefined on pages without TLS
  if (!row || !clipboard) return
  const cells = table.columns.map((column) => cell(row[column.name]))
  clipboard.writeText(cells.join('\t')).catch(() => {}) // without permission, the key has no effect
}
