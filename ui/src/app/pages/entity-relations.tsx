import { useState } from 'preact/hooks'
import type { Relation } from '../../shared/api-types'
import { plural } from '../../shared/format'
import { showError, toast } from '../../shared/toast'
import { get, tool } from '../api'
import { entityRef, refHref } from '../refs'
import { useResource } from '../resource'

const MAX_SHOWN = 100
const MAX_SUGGESTED = 500

interface Props {
  project: string
  name: string
  relations: Relation[]
  reload: () => void
}

const plain = ({ from, to, relation_type }: Relation) => ({ from, to, relation_type })

export function EntityRelations({ project, name, relations, reload }: Props) {
  const [showsAll, setShowsAll] = useState(false)
  const shown = showsAll ? relations : relations.slice(0, MAX_SHOWN)
  async function remove(relation: Relation) {
    const given = { project, relations: [plain(relation)] }
    const undo = async () => {
      await tool('create_relations', given)
      reload()
    }
    try {
      await tool('delete_relations', given)
      toast(`Removed: ${relation.from} ${relation.relation_type} ${relation.to}`, { undo })
      reload()
    } catch (error) {
      showError(error)
    }
  }
  return (
    <section class="card">
      <h2>Relations</h2>
      {!relations.length && <p class="mut">It is not connected to anything yet.</p>}
      <ul class="list" aria-label="Relations">
        {shown.map((relation) => (
          <li key={JSON.stringify(plain(relation))}>
            <RelationLine project={project} name={name} relation={relation} />{' '}
            <button
              class="link"
              aria-label={`Remove: ${relation.from} ${relation.relation_type} ${relation.to}`}
              onClick={() => remove(relation)}
            >
              ×
            </button>
          </li>
        ))}
      </ul>
      {shown.length < relations.length && (
        <button onClick={() => setShowsAll(true)}>Show all {plural(relations.length, 'relation')}</button>
      )}
      <AddRelation project={project} name={name} reload={reload} />
    </section>
  )
}

function RelationLine({ project, name, relation }: { project: string; name: string; relation: Relation }) {
  const end = (other: string) =>
    other === name ? <b>{other}</b> : <a href={refHref(entityRef(project, other))}>{other}</a>
  return (
    <>
      {end(relation.from)} <span class="mut">{relation.relation_type}</span> {end(relation.to)}
    </>
  )
}

/** The names of other entities are suggested. */
function AddRelation({ project, name, reload }: Omit<Props, 'relations'>) {
  const [relation, setRelation] = useState('')
  const [other, setOther] = useState('')
  const load = () => get('/api/graph/{project}', { path: { project }, query: { limit: MAX_SUGGESTED } })
  const known = useResource(load, [project], {}).value?.nodes ?? []
  async function add(event: Event) {
    event.preventDefault()
    const created = { from: name, to: other.trim(), relation_type: relation.trim() }
    try {
      await tool('create_relations', { project, relations: [created] })
      setRelation('')
      setOther('')
      reload()
    } catch (error) {
      showError(error)
    }
  }
  return (
    <form class="bar" aria-label="New relation" onSubmit={add}>
      <b>{name}</b>
      <input
        required
        aria-label="Relation"
        placeholder="works with"
        value={relation}
        onInput={(event) => setRelation(event.currentTarget.value)}
      />
      <input
        required
        aria-label="Other entity"
        placeholder="another entity"
        list="entities"
        value={other}
        onInput={(event) => setOther(event.currentTarget.value)}
      />
      <datalist id="entities">
        {known.map((node) => (
          <option key={node.name} value={node.name} />
        ))}
      </datalist>
      <button>Add</button>
    </form>
  )
}
