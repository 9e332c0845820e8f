// What can be done with the selected memories of a list.
import { useState } from 'preact/hooks'
import { number, plural } from '../../shared/format'
import { showError } from '../../shared/toast'
import { splitTags } from '../note-fields'
import type { Hit } from '../search'
import {
  changeSelected,
  clearSelection,
  NOTES,
  deleteSelected,
  restoreSelected,
  running,
  select,
  selectedIn,
} from '../selection'
import { DeleteForGood } from './delete-for-good'

const focus = (element: HTMLElement | null) => element?.focus() // when it appears

interface Props {
  list: string
  hits: Hit[] // of this page, that can be selected
  total: number | undefined // of a list that can be selected as a whole
  maxSelected: number
  loadAll: () => Promise<Hit[]>
  isArchived: boolean
}

export function SelectionBar({ list, hits, total, maxSelected, loadAll, isArchived }: Props) {
  const selected = [...selectedIn(list)]
  const isPageSelected = hits.length > 0 && hits.every((hit) => selected.includes(hit.ref))
  const all = Math.min(total ?? 0, maxSelected)
  const selectAll = () =>
    loadAll().then(
      (found) =>
        select(
          list,
          found.map((hit) => hit.ref),
          true,
        ),
      showError,
    )
  return (
    <div class={selected.length ? 'bar selection on' : 'bar selection'} role="group" aria-label="Selection">
      <label class="check all">
        <input
          type="checkbox"
          aria-label="Select all on this page"
          checked={isPageSelected}
          disabled={!hits.length}
          onChange={() =>
            select(
              list,
              hits.map((hit) => hit.ref),
              !isPageSelected,
            )
          }
        />
        {selected.length === 0 && 'Select all'}
      </label>
      {selected.length > 0 && (
        <>
          <span role="status">{running.value || `${number(selected.length)} selected`}</span>
          {isPageSelected && selected.length < all && (
            <button class="link" onClick={selectAll}>
              Select all {number(all)}
            </button>
          )}
          <Actions refs={selected} isArchived={isArchived} />
          <button class="link" onClick={clearSelection}>
            Clear
          </button>
        </>
      )}
    </div>
  )
}

function Actions({ refs, isArchived }: { refs: string[]; isArchived: boolean }) {
  const [form, setForm] = useState<'tag' | 'move' | ''>('')
  const isBusy = Boolean(running.value)
  if (isArchived) return <ActionsOfArchived refs={refs} isBusy={isBusy} />
  const hasOnlyNotes = refs.every((ref) => ref.startsWith(NOTES))
  const title = hasOnlyNotes ? undefined : 'Only notes have tags and namespaces'
  const toggle = (name: 'tag' | 'move') => setForm(form === name ? '' : name)
  return (
    <>
      <button
        aria-expanded={form === 'tag'}
        disabled={!hasOnlyNotes || isBusy}
        title={title}
        onClick={() => toggle('tag')}
      >
        Tag
      </button>
      <button
        aria-expanded={form === 'move'}
        disabled={!hasOnlyNotes || isBusy}
        title={title}
        onClick={() => toggle('move')}
      >
        Move
      </button>
      {hasOnlyNotes ? (
        <>
          <button disabled={isBusy} onClick={() => deleteSelected(refs)}>
            Archive
          </button>
          <DeleteForGood refs={refs} isDisabled={isBusy} />
        </>
      ) : (
        <button class="danger" disabled={isBusy} onClick={() => deleteSelected(refs)}>
          Delete
        </button>
      )}
      {form === 'tag' && <TagForm refs={refs} onDone={() => setForm('')} />}
      {form === 'move' && <MoveForm refs={refs} onDone={() => setForm('')} />}
    </>
  )
}

function ActionsOfArchived({ refs, isBusy }: { refs: string[]; isBusy: boolean }) {
  return (
    <>
      <button disabled={isBusy} onClick={() => restoreSelected(refs)}>
        Restore
      </button>
      <DeleteForGood refs={refs} isDisabled={isBusy} />
    </>
  )
}

interface FormProps {
  refs: string[]
  onDone: () => void
}

function TagForm({ refs, onDone }: FormProps) {
  const [text, setText] = useState('')
  const tags = splitTags(text)
  const change = async (kind: 'add_tags' | 'remove_tags') => {
    if (!tags.length) return
    await changeSelected(refs, { [kind]: tags }, kind === 'add_tags' ? 'tagged' : 'no longer tagged')
    onDone()
  }
  const submit = (event: Event) => {
    event.preventDefault()
    void change('add_tags')
  }
  return (
    <form class="bar" aria-label="Tag the selected notes" onSubmit={submit}>
      <input
        ref={focus}
        required
        aria-label="Tags"
        placeholder="ops, first idea"
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
      />
      <button class="primary">Add to {plural(refs.length, 'note')}</button>
      <button type="button" onClick={() => change('remove_tags')}>
        Remove
      </button>
    </form>
  )
}

function MoveForm({ refs, onDone }: FormProps) {
  const [namespace, setNamespace] = useState('')
  const submit = async (event: Event) => {
    event.preventDefault()
    await changeSelected(refs, { namespace: namespace.trim() }, `moved to ${namespace.trim()}`)
    onDone()
  }
  return (
    <form class="bar" aria-label="Move the selected notes" onSubmit={submit}>
      <input
        ref={focus}
        required
        aria-label="Namespace to move to"
        placeholder="work"
        list="namespaces"
        value={namespace}
        onInput={(event) => setNamespace(event.currentTarget.value)}
      />
      <button class="primary">Move {plural(refs.length, 'note')}</button>
    </form>
  )
}
