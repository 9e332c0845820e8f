// Two notes beside each other that say the same, or differ in some words: keep one of them, or both.
import { useEffect, useState } from 'preact/hooks'
import type { Schemas } from '../../shared/api-types'
import { ago } from '../../shared/format'
import { showError, toast } from '../../shared/toast'
import { get, post, tool } from '../api'
import { markDifferences } from '../marks'
import { plainText } from '../plain-text'
import { noteRef, refHref } from '../refs'
import { usePageTitle } from '../title'
import { restoreMemory } from './memory'

type Pair = Schemas['NotePairShown']
type Note = Schemas['PairedNote']

const NOTES_PER_REQUEST = 100

const keyOf = ({ newer, older }: Pair) => newer.id + older.id

function usePairs() {
  const [pairs, setPairs] = useState<Pair[]>([])
  const [next, setNext] = useState<string | null | undefined>(undefined) // null: all notes were compared
  const [isBusy, setBusy] = useState(false)
  const load = async () => {
    setBusy(true)
    try {
      const found = await get('/api/notes/pairs', {
        query: { limit: NOTES_PER_REQUEST, ...(next ? { after: next } : {}) },
      })
      setPairs((known) => [...new Map([...known, ...found.pairs].map((pair) => [keyOf(pair), pair])).values()])
      setNext(found.next)
    } catch (error) {
      showError(error)
    }
    setBusy(false)
  }
  useEffect(() => void load(), [])
  const remove = (pair: Pair) => setPairs((known) => known.filter((one) => one !== pair))
  const add = (pair: Pair) => setPairs((known) => [pair, ...known])
  return { pairs, next, isBusy, load, remove, add }
}

export function NotePairs() {
  const { pairs, next, isBusy, load, remove, add } = usePairs()
  usePageTitle('Similar notes')
  const resolve = async (pair: Pair, action: () => Promise<() => Promise<void>>, done: string) => {
    try {
      const undo = await action()
      remove(pair)
      toast(done, { undo: () => undo().then(() => add(pair)) })
    } catch (error) {
      showError(error)
    }
  }
  const keep = (pair: Pair, other: Note) =>
    resolve(pair, () => deleteNote(other), `The other note “${other.title}” is archived`)
  const keepBoth = (pair: Pair) => resolve(pair, () => linkNotes(pair), 'Both are kept, with a link between them')
  return (
    <>
      <p>
        <a href="/">Home</a>
      </p>
      <h1>Similar notes</h1>
      <p class="mut">
        Notes of one namespace that say nearly the same. Words that only one of them has are marked: decide which one is
        right.
      </p>
      {pairs.map((pair) => (
        <PairCard
          key={keyOf(pair)}
          pair={pair}
          onKeep={(other) => keep(pair, other)}
          onKeepBoth={() => keepBoth(pair)}
        />
      ))}
      {next === null && !pairs.length && <p class="empty">No two notes say nearly the same.</p>}
      <p role="status">
        {isBusy
          ? 'Comparing…'
          : next && (
              <button onClick={() => void load()}>
                {pairs.length ? 'Compare older notes' : 'None yet: compare older notes'}
              </button>
            )}
      </p>
    </>
  )
}

async function deleteNote({ id, title }: Note) {
  const { ref } = await post('/api/memories/delete', { body: { ref: noteRef(id) } })
  return () => restoreMemory(ref, title)
}

/** Notes with a link between them are not compared again. */
async function linkNotes({ newer, older }: Pair) {
  await tool('memory_link', { source_id: newer.id, target_id: older.id })
  return async () => {
    await tool('memory_unlink', { source_id: newer.id, target_id: older.id })
  }
}

interface CardProps {
  pair: Pair
  onKeep: (other: Note) => void
  onKeepBoth: () => void
}

function PairCard({ pair, onKeep, onKeepBoth }: CardProps) {
  const { newer, older, kind, namespace } = pair
  const title = kind === 'same' ? 'They say the same' : 'They differ in some words'
  return (
    <section class="card" aria-label={`${newer.title} and ${older.title}`}>
      <h2>
        {title} <span class="mut">{namespace}</span>
      </h2>
      <div class="note-pair">
        <PairedNote note={newer} other={older} onKeep={() => onKeep(older)} />
        <PairedNote note={older} other={newer} onKeep={() => onKeep(newer)} />
      </div>
      <div class="bar">
        <button onClick={onKeepBoth}>Keep both</button>
      </div>
    </section>
  )
}

function PairedNote({ note, other, onKeep }: { note: Note; other: Note; onKeep: () => void }) {
  const parts = markDifferences(plainText(note.text), plainText(other.text))
  return (
    <div>
      <p>
        <a href={refHref(noteRef(note.id))}>{note.title}</a>{' '}
        <span class="mut">
          {note.client && `${note.client} · `}
          {ago(note.updated_at)}
        </span>
        <span class="compared">{parts.map(([part, isMarked]) => (isMarked ? <mark>{part}</mark> : part))}</span>
      </p>
      <div>
        <button onClick={onKeep} aria-label={`Keep only “${note.title}” of ${ago(note.updated_at)}`}>
          Keep only this one
        </button>
      </div>
    </div>
  )
}
