import { useEffect } from 'preact/hooks'
import { showError } from '../../shared/toast'
import { get } from '../api'
import { Await, useResource } from '../resource'
import { navigate, route } from '../router'
import { findByTitle } from '../search'
import { usePageTitle } from '../title'
import { decode, href } from '../urls'
import { EntityPage } from './entity'
import { FactPage } from './fact'
import { Source } from './memory'
import { MemoryList } from './memory-list'
import { NewNote, NotePage } from './note'
import { NotePairs } from './note-pairs'

export function Memories() {
  const [, part, id] = route.value.path
  const { ref = '', title, namespace } = route.value.query
  if (part === 'new') return <NewNote />
  if (part === 'pairs') return <NotePairs />
  if (part === 'note' && id) return <NotePage key={id} id={id} />
  if (part === 'open') return <OpenedRef key={ref} reference={ref} />
  if (title) return <NoteByTitle key={title} title={title} namespace={namespace} />
  return <MemoryList />
}

/** Follows a [[Title]] to its note, or to a new one. */
function NoteByTitle({ title, namespace }: { title: string; namespace: string | undefined }) {
  useEffect(() => {
    const open = async () => {
      const found = await findByTitle(title, namespace)
      const page = found
        ? href(['memories', 'note', found.id])
        : href(['memories', 'new'], { called: title, namespace })
      navigate(page, true)
    }
    open().catch(showError)
  }, [])
  return <h1>{title}</h1>
}

/** A fact of the vault, an entity, or a list such as a project. */
function OpenedRef({ reference }: { reference: string }) {
  const title = decode(reference.split('/').pop() ?? reference)
  const [, project, entity] = /^graph:([^/]+)\/(.+)$/.exec(reference) ?? []
  const page = entity ? (
    <EntityPage reference={reference} project={decode(project!)} title={title} />
  ) : reference.startsWith('memory://vault/') ? (
    <FactPage reference={reference} title={title} />
  ) : (
    <OtherRef reference={reference} title={title} />
  )
  return (
    <>
      <p>
        <a href="/memories">Memories</a>
      </p>
      {page}
    </>
  )
}

function OtherRef({ reference, title }: { reference: string; title: string }) {
  const found = useResource(() => get('/api/open', { query: { ref: reference } }), [reference])
  usePageTitle(title)
  return (
    <>
      <h1>{title}</h1>
      <Await resource={found}>{(value) => <Source reference={reference} value={value} />}</Await>
    </>
  )
}
