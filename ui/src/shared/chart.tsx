import { useEffect, useRef } from 'preact/hooks'
import uPlot from 'uplot'
import 'uplot/dist/uPlot.min.css'
import { shortTime } from './format'
import { shown } from './invisible'
import { Scroll } from './scroll'

export interface Series {
  label: string
  values: (number | null)[]
  color?: string // a CSS variable
  bars?: boolean
  points?: boolean // without lines between them
  spansGaps?: boolean // values that are missing do not interrupt the line
}

interface Props {
  x: (number | string)[] // seconds since 1970, or names
  series: Series[]
  label: string
  timeRange?: [number, number] // of the axis, in seconds since 1970
  isLocal?: boolean // times in the time zone of the browser, instead of UTC as the rows of tables
  heightPx?: number
}

const DEFAULT_HEIGHT_PX = 200
const MAX_NUMBERS = 200
const DAY_S = 86_400
const BAR_SHARE = 0.7 // of the distance between two places
const MAX_BAR_PX = 60
const MAX_LABEL_CHARS = 16 // on the x axis
const CHAR_PX = 7
const TIME_CHARS = 8 // such as “Nov 2026”
// eslint-disable-next-line @typescript-eslint/no-unsafe-enum-assignment -- the enum exists for the type checker only
const SCALE_VALUES = 1 as uPlot.Series.BarsPathBuilderFacetUnit
const COLORS = ['--accent', '--ok', '--warn', '--num', '--bad', '--fg', '--mut'] as const
const MAX_SOLID = 4 // further lines are dashed, which distinguishes them
const DASH_PX = [6, 4]

function axes(x: Props['x'], isTime: boolean, color: (name: string) => string): uPlot.Axis[] {
  const name = (mark: number) => (Number.isInteger(mark) ? shown(String(x[mark] ?? '').slice(0, MAX_LABEL_CHARS)) : '')
  const lengths = isTime ? [TIME_CHARS] : x.map((one) => Math.min(String(one).length, MAX_LABEL_CHARS))
  const space = Math.max(1, ...lengths) * CHAR_PX + 16
  const names: uPlot.Axis = isTime ? {} : { values: (_, marks) => marks.map(name) }
  return [
    { stroke: color('--mut'), grid: { show: false }, space, ...names },
    { stroke: color('--mut'), grid: { stroke: color('--line'), width: 1 }, size: 60 },
  ]
}

/** The distance between two places on the axis. */
function stepOf(x: number[]): number {
  const gaps = x.slice(1).map((at, index) => at - x[index]!)
  return gaps.length ? Math.min(...gaps) : DAY_S
}

/** Bars of several series stand beside each other. */
function barPaths(x: number[], index: number, count: number): uPlot.Series.PathBuilder {
  if (count === 1) return uPlot.paths.bars!({ size: [BAR_SHARE, MAX_BAR_PX] })
  const step = stepOf(x)
  const width = (step * BAR_SHARE) / count
  return uPlot.paths.bars!({
    disp: {
      x0: { unit: SCALE_VALUES, values: () => x.map((at) => at - (step * BAR_SHARE) / 2 + index * width) },
      size: { unit: SCALE_VALUES, values: () => [width] },
    },
  })
}

function lines(
  x: Props['x'],
  places: number[],
  series: Series[],
  isTime: boolean,
  color: (name: string) => string,
): uPlot.Series[] {
  const drawn = series.map((line, index) => {
    const stroke = color(line.color ?? COLORS[index % COLORS.length]!)
    const bars = { fill: stroke, paths: barPaths(places, index, series.length), points: { show: false } }
    const points = { paths: () => null, points: { show: true, size: 9, fill: stroke } }
    return {
      label: shown(line.label),
      stroke,
      width: 2,
      dash: index < MAX_SOLID ? undefined : DASH_PX,
      spanGaps: line.spansGaps,
      ...(line.bars ? bars : line.points ? points : { points: { show: x.length < 3 || line.spansGaps } }),
    }
  })
  return [
    { label: '', value: (_, mark: number | null) => (isTime || mark === null ? '' : shown(String(x[mark] ?? ''))) },
    ...drawn,
  ]
}

function draw(element: HTMLElement, { x, series, timeRange, isLocal, heightPx = DEFAULT_HEIGHT_PX }: Props): uPlot {
  const color = (name: string) => getComputedStyle(element).getPropertyValue(name).trim() || '#888'
  const isTime = typeof x[0] === 'number'
  const places = x.map((at, index) => (typeof at === 'number' ? at : index))
  const padding = !isTime ? 0.5 : series.some((line) => line.bars) ? stepOf(places) / 2 : 0
  const padded: uPlot.Range.Function = (_, from, to) => [from - padding, to + padding]
  return new uPlot(
    {
      width: element.clientWidth || 400,
      height: heightPx,
      tzDate: (at) => (isLocal ? new Date(at * 1000) : uPlot.tzDate(new Date(at * 1000), 'Etc/UTC')),
      legend: { show: series.length > 1, live: false },
      scales: {
        x: { time: isTime, range: timeRange ? () => timeRange : padding ? padded : undefined },
        y: { range: (_, from, to) => [Math.min(0, from), (to || 1) * 1.1] },
      },
      axes: axes(x, isTime, color),
      series: lines(x, places, series, isTime, color),
    },
    [places, ...series.map((line) => line.values)] as uPlot.AlignedData,
    element,
  )
}

function timeText(at: number, isLocal = false): string {
  const time = new Date(at * 1000).toISOString()
  return isLocal ? shortTime(time) : time.slice(0, 16).replace('T', ' ')
}

/** Lines or bars over time or over names. The same numbers are in a table, for screen readers. */
export function Chart(props: Props) {
  const { x, series, label, timeRange, isLocal, heightPx = DEFAULT_HEIGHT_PX } = props
  const container = useRef<HTMLDivElement>(null)
  useEffect(() => {
    const element = container.current!
    const plot = draw(element, props)
    const observer = new ResizeObserver(() => plot.setSize({ width: element.clientWidth, height: heightPx }))
    observer.observe(element)
    return () => {
      observer.disconnect()
      plot.destroy()
    }
  }, [x, series, timeRange?.[0], timeRange?.[1]])
  return (
    <>
      <div ref={container} class="chart" role="img" aria-label={label} />
      <details class="numbers">
        <summary>Numbers</summary>
        <Scroll label={`Numbers: ${label}`}>
          <table>
            <thead>
              <tr>
                <th scope="col">{typeof x[0] === 'number' ? 'Time' : 'Name'}</th>
                {series.map((line) => (
                  <th scope="col" class="num" key={line.label}>
                    {line.label}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {x.slice(-MAX_NUMBERS).map((mark, index) => (
                <tr key={index}>
                  <td>{typeof mark === 'number' ? timeText(mark, isLocal) : mark}</td>
                  {series.map((line) => (
                    <td class="num" key={line.label}>
                      {line.values[index + Math.max(0, x.length - MAX_NUMBERS)]}
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </Scroll>
      </details>
    </>
  )
}
