// The selected memories of a list, and what can be done with all of them.
import { signal } from '@preact/signals'
import { errorMessage, plural } from '../shared/format'
import { showError, toast } from '../shared/toast'
import type { Schemas } from '../shared/api-types'
import { post, tool } from './api'
import { asOneChange, countEndedActions } from './changes'
import { noteRef } from './refs'

export const NOTES = noteRef('')
const MAX_AT_ONCE = 200 // in one request

interface Selection {
  list: string // the key of the list
  refs: ReadonlySet<string>
}

/** It stays while the user looks at a memory, and until another list is shown. */
export const selection = signal<Selection>({ list: '', refs: new Set() })

/** What was deleted last. A list that was loaded before leaves it out. */
const deletion = signal<{ refs: ReadonlySet<string>; endedActions: number }>({ refs: new Set(), endedActions: -1 })

/** Whether a memory of a list was deleted after the list was asked for. */
export const isDeletedSince = (ref: string, endedActions: number) =>
  endedActions <= deletion.value.endedActions && deletion.value.refs.has(ref)

/** What runs now, such as "Deleting 200 of 1,000". */
export const running = signal('')

export const selectedIn = (list: string) => (selection.value.list === list ? selection.value.refs : new Set<string>())

export function select(list: string, refs: Iterable<string>, isSelected: boolean): void {
  const chosen = new Set(selectedIn(list))
  for (const ref of refs)
    if (isSelected) chosen.add(ref)
    else chosen.delete(ref)
  selection.value = { list, refs: chosen }
}

export const clearSelection = () => (selection.value = { list: '', refs: new Set() })

type Done = Schemas['MemoriesDone']

/** Run an action in parts, and show how far it is. */
async function inParts<R extends Done>(
  label: string,
  refs: string[],
  run: (part: string[]) => Promise<R>,
): Promise<R[]> {
  const done: R[] = []
  try {
    for (let start = 0; start < refs.length; start += MAX_AT_ONCE) {
      if (start) running.value = `${label} ${start} of ${refs.length}…`
      done.push(await run(refs.slice(start, start + MAX_AT_ONCE)))
    }
  } finally {
    running.value = ''
  }
  return done
}

const memories = (count: number) => plural(count, 'memory', 'memories')

function report(done: Done[], verb: string, undo?: () => Promise<unknown>): void {
  const refused = done.flatMap((part) => part.refused)
  const count = done.reduce((sum, part) => sum + part.refs.length, 0)
  const others = refused.length ? `; ${memories(refused.length)} not: ${refused[0]!.error}` : ''
  toast(`${memories(count)} ${verb}${others}`, count ? { undo } : { isError: true })
}

const attempt = async (action: () => Promise<void>) => asOneChange(action).catch(showError)

/** Notes are archived: they can be restored later, too. */
export const deleteSelected = (refs: string[]) =>
  attempt(async () => {
    const done = await inParts('Deleting', refs, (part) => post('/api/memories/delete-many', { body: { refs: part } }))
    const deleted = done.flatMap((part) => part.refs)
    deletion.value = { refs: new Set(deleted), endedActions: countEndedActions() }
    clearSelection()
    const verb = deleted.every((ref) => ref.startsWith(NOTES)) ? 'archived' : 'deleted'
    report(done, verb, () => restoreSelected(deleted))
  })

export const restoreSelected = (refs: string[]) =>
  attempt(async () => {
    const done = await inParts('Restoring', refs, (part) =>
      post('/api/memories/restore-many', { body: { refs: part } }),
    )
    deletion.value = { refs: new Set(), endedActions: -1 }
    clearSelection()
    report(done, 'restored')
  })

/** Notes, with their former versions. It cannot be undone. */
export const deleteForGood = (refs: string[]) =>
  attempt(async () => {
    const done: Done = { refs: [], refused: [] }
    try {
      for (const [position, ref] of refs.entries()) {
        if (position) running.value = `Deleting ${position} of ${refs.length}…`
        try {
          await tool('memory_delete', { id: ref.slice(NOTES.length), soft: false })
          done.refs.push(ref)
        } catch (error) {
          done.refused.push({ ref, error: errorMessage(error) })
        }
      }
    } finally {
      running.value = ''
    }
    deletion.value = { refs: new Set(done.refs), endedActions: countEndedActions() }
    clearSelection()
    report([done], 'deleted for good')
  })

type Change = Omit<Schemas['NotesChange'], 'refs'>

/** Tag notes or move them. */
export const changeSelected = (refs: string[], change: Change, verb: string) =>
  attempt(async () => {
    const done = await inParts('Changing', refs, (part) =>
      post('/api/notes/change', { body: { ...change, refs: part } }),
    )
    const undo = done.flatMap((part) => part.undo)
    report(done, verb, undo.length ? () => revertNotes(undo) : undefined)
  })

/** Undo the last change of notes: each gets its former version and date again. */
const revertNotes = (notes: Schemas['FormerVersion'][]) =>
  attempt(async () => {
    const versions = new Map(notes.map(({ ref, version }) => [ref, version]))
    const done = await inParts('Undoing', [...versions.keys()], (part) =>
      post('/api/notes/revert', { body: { notes: part.map((ref) => ({ ref, version: versions.get(ref)! })) } }),
    )
    report(done, 'as before')
  })
