import { useEffect, useMemo, useState } from 'preact/hooks'
import type { QueryResult, Table } from '../shared/api-types'
import type { Bridge } from '../shared/bridge'
import { Chart } from '../shared/chart'
import { errorMessage } from '../shared/format'
import { Choice } from './choice'
import { CHART_KINDS, PERIODS, type ChartChoice, type ChartKind } from './result-chart'
import { chartQuery, completeChoice, drawTableChart, isTime, measures } from './table-chart'

const HEIGHT_PX = 320

interface Props {
  bridge: Bridge
  uri: string
  table: Table
  choice: ChartChoice
  setChoice: (choice: ChartChoice) => void
  revision: number
  onOpenQuery: (sql: string) => void
}

interface Answer {
  sql: string
  result?: QueryResult
  error?: string
}

/** A chart of a table, which needs no query of the user. */
export function Charts(props: Props) {
  const { bridge, uri, table, choice, setChoice, revision, onOpenQuery } = props
  const [answer, setAnswer] = useState<Answer | null>(null)
  const chart = completeChoice(table, choice)
  const sql = chart ? chartQuery(chart) : ''
  useEffect(() => {
    let isCurrent = true
    const show = (found: Answer) => isCurrent && setAnswer(found)
    if (sql)
      bridge.call('portal_query', { portalUri: uri, sql }).then(
        (result) => show({ sql, result }),
        (error: unknown) => show({ sql, error: errorMessage(error) }),
      )
    return () => {
      isCurrent = false
    }
  }, [uri, sql, revision])
  const result = answer?.sql === sql ? answer.result : undefined
  const drawing = useMemo(() => (result && chart ? drawTableChart(result, chart) : null), [result, chart?.kind])
  if (!chart) return <p class="empty">This table has no columns.</p>
  const error = answer?.sql === sql && answer.error
  const names = table.columns.map(({ name }): [string, string] => [name, name])
  return (
    <section class="charts" aria-label="Charts">
      <div class="bar" role="group" aria-label="What is drawn">
        <Choice
          label="Show"
          value={chart.measure.value}
          options={measures(table).map(({ value, label }) => [value, label])}
          onChoose={(y) => setChoice({ ...choice, y })}
        />
        <Choice label="by" value={chart.x.name} options={names} onChoose={(x) => setChoice({ ...choice, x })} />
        {isTime(chart.x) && (
          <Choice
            label="per"
            value={chart.per}
            options={Object.entries(PERIODS)}
            onChoose={(per) => setChoice({ ...choice, per: per as keyof typeof PERIODS })}
          />
        )}
        <Choice
          label="split by"
          value={chart.by}
          options={[['', 'nothing'], ...names.filter(([name]) => name !== chart.x.name)]}
          onChoose={(by) => setChoice({ ...choice, by })}
        />
        <Choice
          label="drawn as"
          isOptional
          value={chart.kind}
          options={Object.entries(CHART_KINDS)}
          onChoose={(kind) => setChoice({ ...choice, kind: kind as ChartKind | undefined })}
        />
      </div>
      {error && (
        <pre class="error" role="alert">
          {error}
        </pre>
      )}
      {!drawing && !error && <div class="skeleton" aria-label="Loading" />}
      {drawing &&
        ('chart' in drawing ? (
          <Chart {...drawing.chart} heightPx={HEIGHT_PX} />
        ) : (
          <p class="empty" role="status">
            {drawing.problem}
          </p>
        ))}
      <p>
        <button class="link" onClick={() => onOpenQuery(sql)}>
          Open as SQL
        </button>
      </p>
    </section>
  )
}
