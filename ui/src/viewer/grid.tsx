import { Virtualizer, elementScroll, observeElementOffset, observeElementRect } from '@tanstack/virtual-core'
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import type { Bridge, Column, Row, Table } from '../shared/bridge'
import { cell, message, number } from '../shared/words'
import { EVERYTHING, count, isPlain, page, type Wish } from './rows'

const HEIGHT = 30 // pixels of a row
const PAGE = 10 // rows where a host shows the viewer inside a conversation
const CHUNK = 100 // rows asked for at once where it scrolls

interface Loaded {
  total: number | null
  trouble: string | null
  row: (index: number) => Row | undefined
  want: (from: number, to: number) => void
}

/** Rows as they are looked at. Answers to a wish that has changed meanwhile are dropped. */
function useRows(bridge: Bridge, portalUri: string, table: Table, wish: Wish, revision: number, size: number): Loaded {
  const key = JSON.stringify([portalUri, table.name, wish, revision, size])
  const current = useRef('')
  const chunks = useRef(new Map<number, Row[] | 'asked'>())
  const [total, setTotal] = useState<number | null>(null)
  const [trouble, setTrouble] = useState<string | null>(null)
  const [, redraw] = useState(0)
  if (current.current !== key) {
    current.current = key
    chunks.current = new Map()
  }
  const guard = async <T,>(work: Promise<T>, then: (found: T) => void) => {
    try {
      const found = await work
      if (current.current === key) then(found)
    } catch (error) {
      if (current.current !== key) return
      setTrouble(message(error))
      setTotal(0)
    }
  }
  useEffect(() => {
    setTrouble(null)
    void guard(count(bridge, portalUri, table, wish), setTotal)
  }, [key])
  const want = (from: number, to: number) => {
    for (let at = Math.floor(from / size); at * size < to; at++) {
      if (chunks.current.has(at)) continue
      chunks.current.set(at, 'asked')
      void guard(page(bridge, portalUri, table, wish, at * size, size), (rows) => {
        chunks.current.set(at, rows)
        redraw((times) => times + 1)
      })
    }
  }
  const row = (index: number) => {
    const chunk = chunks.current.get(Math.floor(index / size))
    return Array.isArray(chunk) ? chunk[index % size] : undefined
  }
  return { total, trouble, row, want }
}

const width = (column: Column) =>
  /Int|Float|Bool/.test(column.type)
    ? 110
    : /UUID|Date/.test(column.type)
      ? 190
      : /JSON|Array/.test(column.type)
        ? 240
        : 260

interface Props {
  bridge: Bridge
  portalUri: string
  table: Table
  wish: Wish
  setWish: (wish: Wish) => void
  revision: number
  selected: Map<number, Row>
  setSelected: (rows: Map<number, Row>) => void
  onDelete: () => void
  pages: boolean // a pager instead of scrolling
}

export function Grid({
  bridge,
  portalUri,
  table,
  wish,
  setWish,
  revision,
  selected,
  setSelected,
  onDelete,
  pages,
}: Props) {
  const size = pages ? PAGE : CHUNK
  const rows = useRows(bridge, portalUri, table, wish, revision, size)
  const total = rows.total ?? 0
  const [current, setCurrent] = useState(0)
  const [shownPage, setShownPage] = useState(0)
  const [, redraw] = useState(0)
  const scroller = useRef<HTMLDivElement>(null)
  const virtual = useMemo(
    () =>
      new Virtualizer<HTMLDivElement, HTMLElement>({
        count: 0,
        getScrollElement: () => scroller.current,
        estimateSize: () => HEIGHT,
        overscan: 10,
        scrollToFn: elementScroll,
        observeElementRect,
        observeElementOffset,
        onChange: () => redraw((times) => times + 1),
      }),
    [pages],
  )
  virtual.setOptions({ ...virtual.options, count: pages ? 0 : total })
  useEffect(() => virtual._didMount(), [virtual])
  useEffect(() => virtual._willUpdate())
  useEffect(() => {
    setCurrent(0)
    setShownPage(0)
    if (scroller.current) scroller.current.scrollTop = 0
  }, [table.name, JSON.stringify(wish)])

  const first = shownPage * PAGE
  const shown = pages
    ? Array.from({ length: Math.max(0, Math.min(PAGE, total - first)) }, (_, at) => ({
        index: first + at,
        start: at * HEIGHT,
      }))
    : virtual.getVirtualItems().map((item) => ({ index: item.index, start: item.start }))
  const from = shown[0]?.index ?? 0
  const to = (shown.at(-1)?.index ?? -1) + 1
  useEffect(() => rows.want(from, to))

  useEffect(() => {
    // Somebody else's write may have moved the rows: what is not where it was selected is not selected any more.
    const kept = [...selected].filter(([index, row]) => isSame(rows.row(index) ?? row, row))
    if (kept.length < selected.size) setSelected(new Map(kept))
  })

  const toggle = (index: number) => {
    const row = rows.row(index)
    if (!row) return
    const next = new Map(selected)
    if (!next.delete(index)) next.set(index, row)
    setSelected(next)
  }
  const move = (by: number) => {
    const next = Math.max(0, Math.min(total - 1, current + by))
    setCurrent(next)
    if (pages) setShownPage(Math.floor(next / PAGE))
    else virtual.scrollToIndex(next)
  }
  const steps: Record<string, number> = {
    ArrowDown: 1,
    ArrowUp: -1,
    PageDown: pages ? PAGE : 20,
    PageUp: pages ? -PAGE : -20,
    Home: -1e12,
    End: 1e12,
  }
  const onKey = (event: KeyboardEvent) => {
    if (event.target !== event.currentTarget) return
    const step = steps[event.key]
    if (step) move(step)
    else if (event.key === ' ') toggle(current)
    else if (event.key === 'Delete' && selected.size) onDelete()
    else if (event.key === 'c' && (event.ctrlKey || event.metaKey)) copy(rows.row(current), table)
    else return
    event.preventDefault()
  }
  const sort = (name: string) => {
    const isSame = wish.sort === name
    setWish({ ...wish, sort: isSame && wish.descending ? undefined : name, descending: isSame && !wish.descending })
  }
  const filter = (name: string, value: string) => {
    const { [name]: _, ...others } = wish.filters
    setWish({ ...wish, filters: value ? { ...others, [name]: value } : others })
  }
  const columns = {
    gridTemplateColumns: ['36px', ...table.columns.map((column) => `${width(column)}px`)].join(' ') + ' 1fr',
  }
  const isFiltered = Boolean(wish.search || Object.keys(wish.filters).length)
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
                <span class="hidden">Selected</span>
              </span>
              {table.columns.map((column) => (
                <span
                  role="columnheader"
                  key={column.name}
                  aria-sort={wish.sort !== column.name ? 'none' : wish.descending ? 'descending' : 'ascending'}
                >
                  <button
                    class="sort"
                    title={column.type}
                    disabled={!isPlain(column)}
                    onClick={() => sort(column.name)}
                  >
                    {column.name}
                    {wish.sort === column.name && <i aria-hidden="true" class={wish.descending ? 'down' : 'up'} />}
                  </button>
                  <input
                    class="filter"
                    aria-label={`Filter ${column.name}`}
                    placeholder="filter"
                    value={wish.filters[column.name] ?? ''}
                    onChange={(event) => filter(column.name, event.currentTarget.value)}
                  />
                </span>
              ))}
            </div>
          </div>
          <div
            role="rowgroup"
            class="grid-body"
            style={{ height: `${pages ? shown.length * HEIGHT : virtual.getTotalSize()}px` }}
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
                      <input
                        type="checkbox"
                        tabIndex={-1}
                        aria-label={`Select row ${index + 1}`}
                        checked={selected.has(index)}
                        onChange={() => toggle(index)}
                      />
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
            {rows.trouble ? (
              <span role="alert">{rows.trouble} </span>
            ) : isFiltered ? (
              'No rows match. '
            ) : (
              'This table is empty. Import a file to fill it.'
            )}
            {(rows.trouble || isFiltered) && (
              <button class="link" onClick={() => setWish(EVERYTHING)}>
                Clear filters
              </button>
            )}
          </p>
        )}
      </div>
      <div class="pager">
        {pages && (
          <button disabled={!shownPage} onClick={() => setShownPage(shownPage - 1)} aria-label="Previous page">
            ‹
          </button>
        )}
        <span aria-live="polite">
          {rows.total === null
            ? 'Counting…'
            : pages && total
              ? `${number(first + 1)}–${number(Math.min(total, first + PAGE))} of ${number(total)}`
              : `${number(total)} rows`}
        </span>
        {pages && (
          <button disabled={first + PAGE >= total} onClick={() => setShownPage(shownPage + 1)} aria-label="Next page">
            ›
          </button>
        )}
      </div>
    </>
  )
}

const isSame = (one: Row, other: Row) => one === other || JSON.stringify(one) === JSON.stringify(other)

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
  if (row)
    void navigator.clipboard
      ?.writeText(table.columns.map((column) => cell(row[column.name])).join('\t'))
      .catch(() => {})
}
