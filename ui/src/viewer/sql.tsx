import { autocompletion, closeBrackets, completionKeymap } from '@codemirror/autocomplete'
import { defaultKeymap, history, historyKeymap } from '@codemirror/commands'
import { SQLDialect, sql } from '@codemirror/lang-sql'
import { HighlightStyle, bracketMatching, syntaxHighlighting } from '@codemirror/language'
import { EditorState } from '@codemirror/state'
import { EditorView, drawSelection, keymap, lineNumbers, placeholder } from '@codemirror/view'
import { tags } from '@lezer/highlight'
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import type { QueryResult, Table } from '../shared/api-types'
import type { Bridge } from '../shared/bridge'
import { showError, toast } from '../shared/toast'
import { cell, errorMessage, number, plural } from '../shared/format'
import { ChartView } from './chart-view'
import { exportFile, type ExportFormat } from './files'
import {
  NO_QUERIES,
  readQueries,
  withRun,
  withSaved,
  withoutSaved,
  writeQueries,
  type Queries,
} from '../shared/query-history'
import { drawResult, numericColumns, type ChartChoice } from './result-chart'
import { SavedQueries } from './saved-queries'
import { Scroll } from '../shared/scroll'

const colors = HighlightStyle.define([
  { tag: tags.keyword, color: 'var(--accent)', fontWeight: '600' },
  { tag: tags.string, color: 'var(--ok)' },
  { tag: tags.number, color: 'var(--num)' },
  { tag: tags.comment, color: 'var(--mut)', fontStyle: 'italic' },
])
const theme = EditorView.theme({
  '&': { fontSize: '13px', backgroundColor: 'var(--bg)', color: 'var(--fg)' },
  '.cm-content': { fontFamily: 'var(--mono)', caretColor: 'var(--fg)' },
  '.cm-gutters': { backgroundColor: 'var(--bg2)', color: 'var(--mut)', border: '0' },
  '.cm-cursor': { borderLeftColor: 'var(--fg)' },
  '.cm-tooltip': { backgroundColor: 'var(--bg2)', color: 'var(--fg)', border: '1px solid var(--line)' },
  '&.cm-focused': { outline: '2px solid var(--accent)' },
  '.cm-selectionBackground, &.cm-focused .cm-selectionBackground': {
    backgroundColor: 'color-mix(in srgb, var(--accent) 25%, transparent)',
  },
})
/** Typing over a selection: the browser would keep its colors in a style attribute, which a strict policy refuses. */
const replaceSelection = EditorView.domEventHandlers({
  beforeinput(event, view) {
    if (event.inputType !== 'insertText' || !event.data || view.state.selection.main.empty || view.composing)
      return false
    event.preventDefault()
    view.dispatch(view.state.replaceSelection(event.data), { userEvent: 'input.type', scrollIntoView: true })
    return true
  },
})
const KEYWORDS = `select from where and or not in is null like ilike between order by group having limit offset as asc
  desc distinct with join inner left right full on using union all case when then else end prewhere array final sample
  interval exists any`
const FUNCTIONS = `count sum avg min max uniq quantile countIf sumIf toString toDate toStartOfHour toStartOfDay
  toStartOfMonth substring length lower upper hasToken hasAnyTokens now round arrayJoin`
const words = (text: string) => text.replace(/\s+/g, ' ')
const ClickHouse = SQLDialect.define({
  keywords: words(KEYWORDS),
  types: 'String UUID Bool Int64 UInt64 Float64 DateTime64 Date Array Nullable JSON',
  builtin: words(FUNCTIONS),
  backslashEscapes: true,
})

interface Props {
  bridge: Bridge
  portalUri: string
  tables: Table[]
  query: string
  setQuery: (text: string) => void
  chart: ChartChoice
  setChart: (choice: ChartChoice) => void
  href?: (sql: string) => string // where a query has an address
}

/** The queries of this portal that this browser has, or this page where there is no storage. */
function useQueries({ bridge: { storage }, portalUri }: Props) {
  const [queries, setQueries] = useState(() => (storage ? readQueries(storage, portalUri) : NO_QUERIES))
  const change = (by: (queries: Queries) => Queries) => {
    const next = by(storage ? readQueries(storage, portalUri) : queries) // another tab may have written
    setQueries(next)
    if (storage) writeQueries(storage, portalUri, next)
  }
  return [queries, change] as const
}

export function Sql(props: Props) {
  const { bridge, portalUri, tables, query, setQuery, chart, setChart, href } = props
  const [queries, changeQueries] = useQueries(props)
  const container = useRef<HTMLDivElement>(null)
  const editor = useRef<EditorView>(undefined)
  const runCount = useRef(0)
  const lastQuery = useRef(query) // the query of the result and of the address
  const [result, setResult] = useState<QueryResult | null>(null)
  const [error, setError] = useState<string | null>(null)
  const [isBusy, setBusy] = useState(false)
  const [asChart, setAsChart] = useState(false)
  const canDraw = useMemo(() => Boolean(result && result.rows.length > 1 && numericColumns(result).length), [result])
  const first = tables[0] ? `SELECT *\nFROM ${tables[0].name}\nLIMIT 100` : 'SELECT 1'
  const text = () => editor.current!.state.doc.toString().trim().replace(/;$/, '')

  async function run() {
    const id = ++runCount.current
    setBusy(true)
    setError(null)
    lastQuery.current = text()
    setQuery(lastQuery.current)
    try {
      const found = await bridge.call('portal_query', { portalUri, sql: lastQuery.current })
      if (id !== runCount.current) return
      setResult(found)
      const drawing = drawResult(found, chart)
      setAsChart('chart' in drawing && (drawing.chart.isWhole || Object.values(chart).some((one) => one !== undefined)))
      changeQueries((all) => withRun(all, lastQuery.current))
    } catch (error) {
      if (id !== runCount.current) return
      setResult(null)
      setError(errorMessage(error))
    } finally {
      if (id === runCount.current) setBusy(false)
    }
  }
  const runRef = useRef(run)
  runRef.current = run

  useEffect(() => {
    // In a shadow root the editor's styles are sheets, not <style> elements, which a strict policy refuses.
    const root = container.current!.shadowRoot ?? container.current!.attachShadow({ mode: 'open' })
    const schema = Object.fromEntries(tables.map((table) => [table.name, table.columns.map((column) => column.name)]))
    const runs = { key: 'Mod-Enter', run: () => (void runRef.current(), true) }
    editor.current = new EditorView({
      root,
      parent: root,
      state: EditorState.create({
        doc: query || first,
        extensions: [
          lineNumbers(),
          history(),
          drawSelection(),
          bracketMatching(),
          closeBrackets(),
          autocompletion(),
          syntaxHighlighting(colors),
          theme,
          replaceSelection,
          sql({ dialect: ClickHouse, schema }),
          placeholder('SELECT …'),
          EditorView.contentAttributes.of({ 'aria-label': 'SQL query' }),
          EditorView.lineWrapping,
          keymap.of([runs, ...defaultKeymap, ...historyKeymap, ...completionKeymap]),
        ],
      }),
    })
    if (query) void run()
    return () => editor.current?.destroy()
  }, [])

  useEffect(() => {
    if (query === lastQuery.current) return // else the user went back to another query
    lastQuery.current = query
    editor.current?.dispatch({ changes: { from: 0, to: editor.current.state.doc.length, insert: query || first } })
    setResult(null)
    setError(null)
    if (query) void run()
  }, [query])

  async function save(format: ExportFormat) {
    try {
      toast(await exportFile(bridge, portalUri, 'query', format, { query: lastQuery.current }))
    } catch (error) {
      showError(error)
    }
  }
  return (
    <section class="sql" aria-label="SQL">
      <div class="editor" ref={container} />
      <div class="bar">
        <button class="primary" onClick={run} disabled={isBusy}>
          Run
        </button>
        <span class="keys">
          <kbd>Ctrl</kbd> <kbd>Enter</kbd>
        </span>
        {result && (
          <span class="mut" role="status">
            {plural(result.rowCount, 'row')}
            {result.truncated ? ' and more' : ''} · {number(Math.round(result.elapsedMs))} ms
          </span>
        )}
        <span class="space" />
        {canDraw && (
          <div role="group" aria-label="Result as" class="choice">
            <button aria-pressed={!asChart} onClick={() => setAsChart(false)}>
              Table
            </button>
            <button aria-pressed={asChart} onClick={() => setAsChart(true)}>
              Chart
            </button>
          </div>
        )}
        {result &&
          (['csv', 'json', 'parquet'] as const).map((format) => (
            <button key={format} onClick={() => save(format)} aria-label={`Export the result as ${format}`}>
              {format}
            </button>
          ))}
      </div>
      {error && (
        <pre class="error" role="alert">
          {error}
        </pre>
      )}
      {result &&
        (asChart && canDraw ? (
          <ChartView result={result} choice={chart} setChoice={setChart} />
        ) : (
          <ResultTable result={result} />
        ))}
      <SavedQueries
        queries={queries}
        current={result ? lastQuery.current : ''}
        href={href}
        onOpen={setQuery}
        onSave={(name) => changeQueries((all) => withSaved(all, name, lastQuery.current))}
        onDelete={(name) => changeQueries((all) => withoutSaved(all, name))}
      />
    </section>
  )
}

function ResultTable({ result }: { result: QueryResult }) {
  return (
    <Scroll label="Query result">
      <table>
        <thead>
          <tr>
            {result.columns.map((column) => (
              <th scope="col" key={column.name} title={column.type}>
                {column.name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {result.rows.slice(0, 500).map((row, at) => (
            <tr key={at}>
              {result.columns.map(({ name }) => (
                <td key={name} class={typeof row[name] === 'number' ? 'num' : ''}>
                  {row[name] === null ? <em class="null">null</em> : cell(row[name]).slice(0, 1000)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </Scroll>
  )
}
