// The undo of a group of writes: first what it will do, then doing it, then taking it back.
import { useLayoutEffect, useRef, useState } from 'preact/hooks'
import type { paths } from '../../generated/api'
import type { Schemas } from '../../shared/api-types'
import { number, plural } from '../../shared/format'
import { showError, toast } from '../../shared/toast'
import { post } from '../api'
import { kindLabel } from '../families'
import { Await, useResource } from '../resource'

export type ChosenWrites = NonNullable<paths['/api/journal/groups']['get']['parameters']['query']>
type Undo = Schemas['WritesUndo']

const MAX_SHOWN = 50
const OUTCOMES = { delete: 'delete', restore: 'restore', left: 'leave alone' }

const memories = (count: number) => plural(count, 'memory', 'memories')

/** Of memories, and of rows of tables, which do not count as memories. */
const counts = (count: number, rows: number) =>
  !rows ? memories(count) : count ? `${memories(count)} and ${plural(rows, 'row')}` : plural(rows, 'row')

const isEmpty = (plan: Undo) => !(plan.deleted || plan.restored || plan.rows_deleted || plan.rows_restored)

const summary = (done: Undo) =>
  `${counts(done.deleted, done.rows_deleted)} deleted, ${counts(done.restored, done.rows_restored)} restored` +
  (done.left ? `, ${number(done.left)} left alone` : '')

/** Undo, say what happened, and offer to take it back; and that, too. */
async function undo(wanted: ChosenWrites): Promise<void> {
  const done = await post('/api/journal/undo', { body: wanted })
  const back = done.undo_id && !isEmpty(done) ? done.undo_id : null
  toast(`Undone: ${summary(done)}.`, back ? { undo: () => undo({ undo_id: back }) } : {})
}

interface Props {
  wanted: ChosenWrites
  what: string
  onClose: () => void
}

export function UndoDialog({ wanted, what, onClose }: Props) {
  const dialog = useRef<HTMLDialogElement>(null)
  const [isRunning, setRunning] = useState(false)
  const plan = useResource(() => post('/api/journal/preview', { body: wanted }), [wanted])
  useLayoutEffect(() => {
    const previous = document.activeElement as HTMLElement | null
    dialog.current?.showModal()
    return () => requestAnimationFrame(() => previous?.isConnected && previous.focus())
  }, [])
  const run = async () => {
    setRunning(true)
    try {
      await undo(wanted)
    } catch (error) {
      showError(error)
    }
    onClose()
  }
  return (
    <dialog ref={dialog} aria-labelledby="undo-writes" onClose={onClose}>
      <h2 id="undo-writes">Undo {what}?</h2>
      <Await resource={plan}>{(found) => <Plan plan={found} />}</Await>
      <div class="bar">
        <button onClick={onClose}>Cancel</button>
        <button class="danger" disabled={!plan.value || isEmpty(plan.value) || isRunning} onClick={run}>
          {isRunning ? 'Undoing…' : 'Undo'}
        </button>
      </div>
    </dialog>
  )
}

function Plan({ plan }: { plan: Undo }) {
  return (
    <>
      <p>
        {!isEmpty(plan) || plan.left
          ? `${counts(plan.deleted, plan.rows_deleted)} will be deleted, ` +
            `${counts(plan.restored, plan.rows_restored)} restored, ${number(plan.left)} left alone.`
          : 'There is nothing to undo.'}
      </p>
      {plan.items.length > 0 && (
        <ul class="list scroll" tabIndex={0} aria-label="What the undo will do">
          {plan.items.slice(0, MAX_SHOWN).map((item, index) => (
            <li key={index}>
              {OUTCOMES[item.outcome]}: {item.title}{' '}
              <span class="mut">
                {kindLabel(item.family)}
                {item.rows !== null && ` · ${plural(item.rows, 'row')}`}
                {item.why && ` · ${item.why}`}
              </span>
            </li>
          ))}
        </ul>
      )}
      {plan.items.length > MAX_SHOWN && <p class="mut">The first {MAX_SHOWN} are shown.</p>}
      {Object.entries(plan.incomplete).map(([name, why]) => (
        <p class="mut" role="alert" key={name}>
          {name}: {why}
        </p>
      ))}
    </>
  )
}
