// The editor of notes, store files, facts and entities: a draft that is kept, a preview, a question before a loss.
import type { ComponentChildren, TargetedKeyboardEvent } from 'preact'
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { Confirm } from '../shared/confirm'
import { useDraft } from '../shared/draft'
import { errorMessage } from '../shared/format'
import { toast } from '../shared/toast'
import { ApiError } from './api'
import { Difference } from './difference'
import { Markdown } from './markdown'
import { TextField } from './text-field'

const LONG_TEXT_CHARS = 20_000 // from here on, the preview waits for a pause in typing
const PREVIEW_DELAY_MS = 400

/** Thrown by `save` if the document changed after the user began. */
export class EditConflict<F> extends Error {
  constructor(
    readonly current: F,
    readonly fields: string[],
  ) {
    super('The document changed.')
  }
}

/** What happens after saving, once the draft is deleted: a message, another page. */
type Finish = () => void

export type Kind = 'note' | 'file' | 'fact' | 'entity'

interface Props<F extends { content: string }> {
  kind: Kind
  label: string
  draftKey: string
  initial: F
  above?: (fields: F, set: (part: Partial<F>) => void) => ComponentChildren
  below?: (fields: F, set: (part: Partial<F>) => void) => ComponentChildren
  focusesText?: boolean
  mayBeEmpty?: boolean
  /** Save what changed from `base`. `seen` is a newer version that the user decided to overwrite. */
  save: (fields: F, base: F, seen?: F) => Promise<Finish>
  /** For a document that was deleted meanwhile. */
  saveAsNew?: (fields: F) => Promise<Finish>
  /** All fields as one text, to compare two versions. */
  textOf: (fields: F) => string
  onClose: () => void
}

const reportDraft = () => toast('Not saved yet: your draft is kept on its page')

/** Runs one action at a time: a second press during the first has no effect. */
function useSingleAction(): [boolean, (action: () => Promise<void>) => Promise<void>] {
  const isRunning = useRef(false)
  const [isBusy, setBusy] = useState(false)
  const run = async (action: () => Promise<void>) => {
    if (isRunning.current) return
    isRunning.current = true
    setBusy(true)
    try {
      await action()
    } finally {
      isRunning.current = false
      setBusy(false)
    }
  }
  return [isBusy, run]
}

interface Saving<F> {
  isBusy: boolean
  error: string
  isDeleted: boolean
  conflict: EditConflict<F> | null
  dismissConflict: () => void
  run: (action: () => Promise<Finish>) => void
}

function useSaving<F>(onSaved: () => void): Saving<F> {
  const [isBusy, runOnce] = useSingleAction()
  const [error, setError] = useState('')
  const [isDeleted, setDeleted] = useState(false)
  const [conflict, setConflict] = useState<EditConflict<F> | null>(null)
  const run = (action: () => Promise<Finish>) =>
    void runOnce(async () => {
      setError('')
      setConflict(null)
      try {
        const finish = await action()
        onSaved()
        finish()
      } catch (thrown) {
        if (thrown instanceof EditConflict) return setConflict(thrown as EditConflict<F>)
        setDeleted(thrown instanceof ApiError && thrown.status === 404)
        setError(errorMessage(thrown))
      }
    })
  return { isBusy, error, isDeleted, conflict, dismissConflict: () => setConflict(null), run }
}

export function Editor<F extends { content: string }>(props: Props<F>) {
  const { draftKey, initial, mayBeEmpty = false, save, onClose } = props
  const draft = useDraft(draftKey, initial, reportDraft)
  const saving = useSaving<F>(() => draft.discard())
  const [isConfirming, setConfirming] = useState(false)
  const fields = draft.draft
  const isComplete = mayBeEmpty || Boolean(fields.content.trim())
  const submit = (seen?: F) => {
    if (isComplete) saving.run(() => save(fields, draft.base, seen))
  }
  const discard = () => {
    draft.discard(initial)
    onClose()
  }
  return (
    <>
      {isConfirming && <ConfirmDiscard onConfirm={discard} onClose={() => setConfirming(false)} />}
      {draft.isRestored && draft.isChanged && <RestoredNotice onDiscard={() => draft.discard(initial)} />}
      <SavingNotices {...props} fields={fields} saving={saving} onOverwrite={submit} onDiscard={discard} />
      <EditorForm
        {...props}
        fields={fields}
        set={(part) => draft.set({ ...fields, ...part })}
        saving={saving}
        isComplete={isComplete}
        isPaused={isConfirming}
        onSubmit={submit}
        onCancel={() => (draft.isChanged ? setConfirming(true) : onClose())}
      />
    </>
  )
}

interface NoticesProps<F extends { content: string }> extends Props<F> {
  fields: F
  saving: Saving<F>
  onOverwrite: (seen: F) => void
  onDiscard: () => void
}

/** The document was changed or deleted meanwhile. */
function SavingNotices<F extends { content: string }>(props: NoticesProps<F>) {
  const { kind, fields, saving, saveAsNew, textOf, onOverwrite, onDiscard } = props
  const { conflict } = saving
  return (
    <>
      {conflict && (
        <Conflict
          kind={kind}
          fields={conflict.fields}
          before={textOf(fields)}
          after={textOf(conflict.current)}
          onOverwrite={() => onOverwrite(conflict.current)}
          onDiscard={onDiscard}
          onClose={saving.dismissConflict}
        />
      )}
      {saving.isDeleted && saveAsNew && (
        <p role="alert">
          This {kind} was deleted while you were editing.{' '}
          <button onClick={() => saving.run(() => saveAsNew(fields))}>Save as a new {kind}</button>
        </p>
      )}
    </>
  )
}

interface FormProps<F extends { content: string }> extends Props<F> {
  fields: F
  set: (part: Partial<F>) => void
  saving: Saving<F>
  isComplete: boolean
  isPaused: boolean // a question is open
  onSubmit: () => void
  onCancel: () => void
}

function EditorForm<F extends { content: string }>(props: FormProps<F>) {
  const { label, fields, set, above, below, saving, saveAsNew, isPaused, onSubmit, onCancel } = props
  const onKey = (event: TargetedKeyboardEvent<HTMLFormElement>) => {
    if (event.isComposing || isPaused) return
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) event.currentTarget.requestSubmit()
    else if (event.key === 'Escape') onCancel()
    else return
    event.preventDefault()
  }
  const submit = (event: Event) => {
    event.preventDefault()
    onSubmit()
  }
  return (
    <form class="editor-form" aria-label={label} onKeyDown={onKey} onSubmit={submit}>
      {above?.(fields, set)}
      <div class="halves">
        <TextField
          label={LABELS[props.kind]}
          value={fields.content}
          isRequired={!props.mayBeEmpty}
          focuses={props.focusesText ?? true}
          linksNotes={props.kind === 'note'}
          onChange={(content) => set({ content } as Partial<F>)}
        />
        <Preview text={fields.content} kind={props.kind} />
      </div>
      {below?.(fields, set)}
      {saving.error && !(saving.isDeleted && saveAsNew) && (
        <p class="error" role="alert">
          {saving.error}
        </p>
      )}
      <div class="bar">
        <button class="primary" disabled={saving.isBusy || !props.isComplete}>
          {saving.isBusy ? 'Saving…' : 'Save'}
        </button>
        <span class="keys">
          <kbd>Ctrl</kbd> <kbd>Enter</kbd>
        </span>
        <button type="button" onClick={onCancel}>
          Cancel
        </button>
      </div>
    </form>
  )
}

function ConfirmDiscard({ onConfirm, onClose }: { onConfirm: () => void; onClose: () => void }) {
  return (
    <Confirm
      title="Discard your changes?"
      text="They are not saved."
      cancelLabel="Keep editing"
      confirmLabel="Discard"
      onConfirm={onConfirm}
      onClose={onClose}
    />
  )
}

function RestoredNotice({ onDiscard }: { onDiscard: () => void }) {
  return (
    <p role="status">
      Your unsaved draft is restored.{' '}
      <button class="link" onClick={onDiscard}>
        Discard it
      </button>
    </p>
  )
}

interface ConflictProps {
  kind: string
  fields: string[]
  before: string
  after: string
  onOverwrite: () => void
  onDiscard: () => void
  onClose: () => void
}

function Conflict({ kind, fields, before, after, onOverwrite, onDiscard, onClose }: ConflictProps) {
  return (
    <section class="card" role="alert" aria-label="Changed meanwhile">
      <p>
        The {fields.join(' and the ')} of this {kind} changed while you were editing. The saved version (+) compared
        with yours (-):
      </p>
      <Difference before={before} after={after} />
      <div class="bar">
        <button class="danger" onClick={onOverwrite}>
          Overwrite with mine
        </button>
        <button onClick={onDiscard}>Discard mine</button>
        <button onClick={onClose}>Keep editing</button>
      </div>
    </section>
  )
}

const LABELS: Record<Kind, string> = {
  note: 'Text',
  file: 'Text',
  fact: 'Text',
  entity: 'Observations, each in a line that starts with “- ”',
}

const HINTS: Record<Kind, string> = {
  note: 'The preview. [[Title]] links to a note, #tag tags this one.',
  file: 'The preview.',
  fact: 'The preview.',
  entity: 'The preview. Without a line, nothing is known about it.',
}

function Preview({ text, kind }: { text: string; kind: Kind }) {
  const [shown, setShown] = useState(text)
  useEffect(() => {
    const timer = setTimeout(() => setShown(text), text.length > LONG_TEXT_CHARS ? PREVIEW_DELAY_MS : 0)
    return () => clearTimeout(timer)
  }, [text])
  const rendered = useMemo(() => <Markdown text={shown} />, [shown]) // Preact skips an element that is the same
  return (
    <section aria-label="Preview" class="preview" tabIndex={0}>
      {shown ? rendered : <p class="mut">{HINTS[kind]}</p>}
    </section>
  )
}
