import type { QueryResult } from '../shared/api-types'
import { Chart } from '../shared/chart'
import { Choice } from './choice'
import { CHART_KINDS, drawResult, numericColumns, type ChartChoice, type ChartKind } from './result-chart'

interface Props {
  result: QueryResult
  choice: ChartChoice
  setChoice: (choice: ChartChoice) => void
}

/** The chart of a result, and what the user may choose of it. */
export function ChartView({ result, choice, setChoice }: Props) {
  const names = result.columns.map((column) => column.name)
  const numbers = numericColumns(result)
  const drawing = drawResult(result, choice)
  return (
    <>
      <div class="bar" role="group" aria-label="Chart">
        <Choice
          isOptional
          label="Kind"
          value={choice.kind}
          options={Object.entries(CHART_KINDS)}
          onChoose={(kind) => setChoice({ ...choice, kind: kind as ChartKind | undefined })}
        />
        <Choice
          isOptional
          label="Across"
          value={choice.x}
          options={names.map((name) => [name, name])}
          onChoose={(x) => setChoice({ ...choice, x })}
        />
        <Choice
          isOptional
          label="Values"
          value={choice.y}
          options={numbers.map((name) => [name, name])}
          onChoose={(y) => setChoice({ ...choice, y })}
        />
        <Choice
          isOptional
          label="Series"
          value={choice.by}
          options={[['', 'none'], ...names.map((name): [string, string] => [name, name])]}
          onChoose={(by) => setChoice({ ...choice, by })}
        />
      </div>
      {'chart' in drawing ? (
        <Chart {...drawing.chart} />
      ) : (
        <p class="empty" role="status">
          {drawing.problem}
        </p>
      )}
    </>
  )
}
