import { useEffect, useRef } from 'preact/hooks'
import uPlot from 'uplot'
import 'uplot/dist/uPlot.min.css'

export interface Series {
  label: string
  values: (number | null)[]
  color?: string // a CSS variable
  bars?: boolean
}

const HEIGHT = 200

/** Lines or bars over time (numbers are seconds; `span` is what the axis shows) or over names (texts). The numbers are a table for
 *  who cannot see it. */
export function Chart({
  x,
  series,
  label,
  span,
}: {
  x: (number | string)[]
  series: Series[]
  label: string
  span?: [number, number]
}) {
  const place = useRef<HTMLDivElement>(null)
  useEffect(() => {
    const at = place.current!
    const color = (name: string) => getComputedStyle(at).getPropertyValue(name).trim() || '#888'
    const isTime = typeof x[0] === 'number'
    const plot = new uPlot(
      {
        width: at.clientWidth || 400,
        height: HEIGHT,
        legend: { show: series.length > 1, live: false },
        scales: {
          x: { time: isTime, range: !isTime ? (_, from, to) => [from - 0.5, to + 0.5] : span ? () => span : undefined },
          y: { range: (_, from, to) => [Math.min(0, from), (to || 1) * 1.1] },
        },
        axes: [
          {
            stroke: color('--mut'),
            grid: { show: false },
            ...(isTime
              ? {}
              : {
                  values: (_: uPlot, marks: number[]) =>
                    marks.map((mark) => (Number.isInteger(mark) ? String(x[mark] ?? '').slice(0, 16) : '')),
                }),
          },
          { stroke: color('--mut'), grid: { stroke: color('--line'), width: 1 }, size: 60 },
        ],
        series: [
          { label: '', value: (_, mark) => (isTime || mark == null ? '' : String(x[mark] ?? '')) },
          ...series.map((one, at) => ({
            label: one.label,
            stroke: color(one.color ?? ['--accent', '--ok', '--warn', '--num'][at % 4]!),
            width: 2,
            points: { show: x.length < 3 },
            ...(one.bars
              ? {
                  fill: color(one.color ?? '--accent'),
                  paths: uPlot.paths.bars!({ size: [0.7, 60] }),
                  points: { show: false },
                }
              : {}),
          })),
        ],
      },
      [isTime ? (x as number[]) : x.map((_, at) => at), ...series.map((one) => one.values)] as uPlot.AlignedData,
      at,
    )
    const resized = new ResizeObserver(() => plot.setSize({ width: at.clientWidth, height: HEIGHT }))
    resized.observe(at)
    return () => {
      resized.disconnect()
      plot.destroy()
    }
  }, [x, series, span?.[0], span?.[1]])
  return (
    <>
      <div ref={place} class="chart" role="img" aria-label={label} />
      <details class="numbers">
        <summary>Numbers</summary>
        <div class="scroll" tabIndex={0} role="region" aria-label={`Numbers: ${label}`}>
          <table>
            <thead>
              <tr>
                <th scope="col">{typeof x[0] === 'number' ? 'Time' : 'Name'}</th>
                {series.map((one) => (
                  <th scope="col" class="num" key={one.label}>
                    {one.label}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {x.slice(-200).map((mark, at) => (
                <tr key={at}>
                  <td>
                    {typeof mark === 'number'
                      ? new Date(mark * 1000).toISOString().slice(0, 16).replace('T', ' ')
                      : mark}
                  </td>
                  {series.map((one) => (
                    <td class="num" key={one.label}>
                      {one.values[at + Math.max(0, x.length - 200)]}
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      </details>
    </>
  )
}
