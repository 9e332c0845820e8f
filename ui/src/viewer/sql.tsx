import { autocompletion, closeBrackets, completionKeymap } from '@codemirror/autocomplete'
import { defaultKeymap, history, historyKeymap } from '@codemirror/commands'
import { SQLDialect, sql } from '@codemirror/lang-sql'
import { HighlightStyle, bracketMatching, syntaxHighlighting } from '@codemirror/language'
import { EditorState } from '@codemirror/state'
import { EditorView, drawSelection, keymap, lineNumbers, placeholder } from '@codemirror/view'
import { tags } from '@lezer/highlight'
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import type { Bridge, Result, Table } from '../shared/bridge'
import { Chart } from '../shared/chart'
import { failed, toast } from '../shared/toast'
import { cell, message, number, plural } from '../shared/words'
import { exportFile } from './files'

const colors = HighlightStyle.define([
  { tag: tags.keyword, color: 'var(--accent)', fontWeight: '600' },
  { tag: tags.string, color: 'var(--ok)' },
  { tag: tags.number, color: 'var(--num)' },
  { tag: tags.comment, color: 'var(--mut)', fontStyle: 'italic' },
])
const looks = EditorView.theme({
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
/** Typing over a selection ourselves: the browser would keep its colours in a style attribute, which a strict policy refuses. */
const plainReplacing = EditorView.domEventHandlers({
  beforeinput(event, view) {
    if (event.inputType !== 'insertText' || !event.data || view.state.selection.main.empty || view.composing)
      return false
    event.preventDefault()
    view.dispatch(view.state.replaceSelection(event.data), { userEvent: 'input.type', scrollIntoView: true })
    return true
  },
})
const ClickHouse = SQLDialect.define({
  keywords:
    'select from where and or not in is null like ilike between order by group having limit offset as asc desc distinct with join inner left right full on using union all case when then else end prewhere array final sample interval exists any',
  types: 'String UUID Bool Int64 UInt64 Float64 DateTime64 Date Array Nullable JSON',
  builtin:
    'count sum avg min max uniq quantile countIf sumIf toString toDate toStartOfHour toStartOfDay toStartOfMonth substring length lower upper hasToken hasAnyTokens now round arrayJoin',
  backslashEscapes: true,
})

interface Props {
  bridge: Bridge
  portalUri: string
  tables: Table[]
  query: string
  setQuery: (text: string) => void
}

export function Sql({ bridge, portalUri, tables, query, setQuery }: Props) {
  const place = useRef<HTMLDivElement>(null)
  const editor = useRef<EditorView>(undefined)
  const asked = useRef(0)
  const ran = useRef(query) // what the result answers, and the address has
  const [result, setResult] = useState<Result | null>(null)
  const [trouble, setTrouble] = useState<string | null>(null)
  const [isBusy, setBusy] = useState(false)
  const [asChart, setAsChart] = useState(false)
  const first = tables[0] ? `SELECT *\nFROM ${tables[0].name}\nLIMIT 100` : 'SELECT 1'
  const text = () => editor.current!.state.doc.toString().trim().replace(/;$/, '')

  async function run() {
    const mine = ++asked.current
    setBusy(true)
    setTrouble(null)
    ran.current = text()
    setQuery(ran.current)
    try {
      const found = await bridge.call<Result>('portal_query', { portalUri, sql: ran.current })
      if (mine !== asked.current) return
      setResult(found)
      setAsChart(isChartable(found))
    } catch (error) {
      if (mine !== asked.current) return
      setResult(null)
      setTrouble(message(error))
    } finally {
      if (mine === asked.current) setBusy(false)
    }
  }
  const runNow = useRef(run)
  runNow.current = run

  useEffect(() => {
    // In a shadow root the editor's styles are sheets, not <style> elements, which a strict policy refuses.
    const root = place.current!.shadowRoot ?? place.current!.attachShadow({ mode: 'open' })
    const schema = Object.fromEntries(tables.map((table) => [table.name, table.columns.map((column) => column.name)]))
    const runs = { key: 'Mod-Enter', run: () => (void runNow.current(), true) }
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
          looks,
          plainReplacing,
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
    if (query === ran.current) return // else Back has led to another query
    ran.current = query
    editor.current?.dispatch({ changes: { from: 0, to: editor.current.state.doc.length, insert: query || first } })
    setResult(null)
    setTrouble(null)
    if (query) void run()
  }, [query])

  async function save(format: string) {
    try {
      toast(await exportFile(bridge, portalUri, 'query', format, { query: ran.current }))
    } catch (error) {
      failed(error)
    }
  }
  return (
    <section class="sql" aria-label="SQL">
      <div class="editor" ref={place} />
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
        {result && isChartable(result) && (
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
          ['csv', 'json', 'parquet'].map((format) => (
            <button key={format} onClick={() => save(format)} aria-label={`Export the result as ${format}`}>
              {format}
            </button>
          ))}
      </div>
      {trouble && (
        <pre class="trouble" role="alert">
          {trouble}
        </pre>
      )}
      {result && (asChart && isChartable(result) ? <ResultChart result={result} /> : <ResultTable result={result} />)}
    </section>
  )
}

const isChartable = (result: Result) =>
  result.rows.length > 1 && result.rows.length <= 5000 && numbersOf(result).length > 0

const numbersOf = (result: Result) =>
  result.columns
    .slice(1)
    .filter((column) => result.rows.every((row) => row[column.name] === null || typeof row[column.name] === 'number'))

function ResultChart({ result }: { result: Result }) {
  const name = result.columns[0]!.name
  const [x, series] = useMemo(() => {
    const first = result.rows.map((row) => row[name])
    const times = first.map((value) =>
      typeof value === 'string' && /^\d{4}-\d\d-\d\d/.test(value)
        ? Date.parse(value.replace(' ', 'T') + (value.length > 10 ? 'Z' : '')) / 1000
        : NaN,
    )
    const isTime = times.every(Number.isFinite)
    const lines = numbersOf(result).slice(0, 4)
    const made = lines.map((column) => ({
      label: column.name,
      values: result.rows.map((row) => row[column.name] as number | null),
      bars: !isTime && lines.length === 1,
    }))
    return [isTime ? times : first.map(cell), made] as const
  }, [result])
  return <Chart x={x} series={series} label={`Chart of ${series.map((one) => one.label).join(', ')} by ${name}`} />
}

function ResultTable({ result }: { result: Result }) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Query result">
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
    </div>
  )
}
