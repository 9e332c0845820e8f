// When notes were written: bars that lead to the notes of a time. The arrow keys move along them.
import { useMemo } from 'preact/hooks'
import { plural } from '../../shared/format'
import { route } from '../router'
import { timeSteps } from '../timeline'
import { href } from '../urls'

interface Props {
  days: Record<string, number>
  since: string
  until: string
}

/** On a phone the newest are beyond the edge. */
const showNewest = (list: HTMLElement | null) => list?.scrollTo(list.scrollWidth, 0)

export function Timeline({ days, since, until }: Props) {
  const steps = useMemo(() => timeSteps(days), [days])
  if (steps.length < 2) return null
  const maximum = Math.max(...steps.map((step) => step.count))
  const isChosen = (step: (typeof steps)[number]) => step.since === since && step.until === until
  const reached = Math.max(0, steps.findIndex(isChosen)) // by Tab
  const onKey = (event: KeyboardEvent) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key]
    const item = (event.target as Element).closest('li')
    const other = step === 1 ? item?.nextElementSibling : step === -1 ? item?.previousElementSibling : null
    if (!other) return
    event.preventDefault()
    other.querySelector('a')?.focus()
  }
  const [first, last] = [steps[0]!, steps[steps.length - 1]!]
  return (
    <div>
      <ol ref={showNewest} class="timeline" aria-label="Notes over time" onKeyDown={onKey}>
        {steps.map((step, position) => (
          <li key={step.since}>
            <a
              tabIndex={position === reached ? 0 : -1}
              title={`${step.label}: ${plural(step.count, 'note')}`}
              aria-label={`${step.label}: ${plural(step.count, 'note')}`}
              aria-current={isChosen(step) ? 'true' : undefined}
              href={href(['memories'], {
                ...route.value.query,
                page: undefined,
                since: isChosen(step) ? undefined : step.since,
                until: isChosen(step) ? undefined : step.until,
              })}
            >
              <span style={{ height: `${Math.ceil((100 * step.count) / maximum)}%` }} />
            </a>
          </li>
        ))}
      </ol>
      <p class="bar mut" aria-hidden="true">
        <span>Notes from {first.since}</span>
        <span class="space" />
        <span>to {last.until}</span>
      </p>
    </div>
  )
}
