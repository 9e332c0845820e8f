// An entity of a graph, with its observations and relations: to read, edit and delete.
import { toast } from '../../shared/toast'
import { ApiError, get, post, tool } from '../api'
import { EditConflict, Editor } from '../editor'
import { Markdown } from '../markdown'
import { observationsJson, observationsOf, observationsText } from '../observations'
import { Await, useResource } from '../resource'
import { navigate, route } from '../router'
import { usePageTitle } from '../title'
import { href } from '../urls'
import { EntityRelations, type Relation } from './entity-relations'
import { memoryHref, MemoryHeading, Origin, Source } from './memory'

interface Entity {
  name: string
  entity_type: string
  observations: string[]
  created_at: string
  updated_at: string
}

interface Found {
  entity: Entity
  relations: Relation[]
}

async function load(ref: string): Promise<Found> {
  const { entities, relations } = (await get('/api/open', { query: { ref } })) as {
    entities: [Entity]
    relations: Relation[]
  }
  return { entity: entities[0], relations }
}

interface Props {
  reference: string
  project: string
  title: string
}

export function EntityPage({ reference, project, title }: Props) {
  const isEditing = Boolean(route.value.query.edit)
  const found = useResource(() => load(reference), [reference], { topics: ['graph'] })
  const render = (value: Found) =>
    isEditing ? (
      <EditEntity reference={reference} project={project} entity={value.entity} reload={found.reload} />
    ) : (
      <EntityView reference={reference} project={project} found={value} reload={found.reload} />
    )
  return (
    <>
      {found.error && !(isEditing && found.value) && <h1>{title}</h1>}
      <Await resource={found} keepStale={isEditing}>
        {render}
      </Await>
    </>
  )
}

interface ViewProps {
  reference: string
  project: string
  found: Found
  reload: () => void
}

function EntityView({ reference, project, found, reload }: ViewProps) {
  const { entity, relations } = found
  const graph = href(['graph'], { project })
  const place = (
    <>
      <b>{entity.entity_type}</b> in <a href={graph}>{project}</a>
    </>
  )
  return (
    <article class="note">
      <MemoryHeading reference={reference} title={entity.name}>
        <a class="button" href={graph}>
          Graph
        </a>
      </MemoryHeading>
      <Origin place={place} created={entity.created_at} updated={entity.updated_at} />
      <Observations texts={entity.observations} />
      <EntityRelations project={project} name={entity.name} relations={relations} reload={reload} />
      <Source reference={reference} value={found} />
    </article>
  )
}

function Observations({ texts }: { texts: string[] }) {
  if (!texts.length) return <p class="mut">Nothing is known about it yet. Edit it to write something down.</p>
  return (
    <ul aria-label="Observations">
      {texts.map((text) => (
        <li key={text}>
          <Markdown text={text} />
        </li>
      ))}
    </ul>
  )
}

interface EditProps {
  reference: string
  project: string
  entity: Entity
  reload: () => void
}

interface Fields {
  content: string
  observations: string[] // before the edit
}

const fieldsOf = ({ observations }: Entity): Fields => ({ content: observationsText(observations), observations })

function EditEntity({ reference, project, entity, reload }: EditProps) {
  usePageTitle(entity.name)
  const close = () => {
    navigate(memoryHref(reference), true)
    reload()
  }
  const finish = () => {
    toast('Saved')
    close()
  }
  async function save({ content }: Fields, base: Fields, { observations: was } = base) {
    const [before, text] = [observationsJson(was), observationsJson(observationsOf(content, was))]
    try {
      await post('/api/memories/edit', { body: { ref: reference, text, was: before } })
    } catch (error) {
      if (!(error instanceof ApiError && error.code === 'changed')) throw error
      throw new EditConflict(fieldsOf((await load(reference)).entity), ['observations'])
    }
    return finish
  }
  async function saveAsNew({ content, observations }: Fields) {
    const { name, entity_type } = entity
    const created = { name, entity_type, observations: observationsOf(content, observations) }
    await tool('create_entities', { project, entities: [created] })
    return finish
  }
  return (
    <>
      <h1>{entity.name}</h1>
      <Editor
        kind="entity"
        label={`Edit ${entity.name}`}
        draftKey={reference}
        initial={fieldsOf(entity)}
        mayBeEmpty
        save={save}
        saveAsNew={saveAsNew}
        textOf={({ content }) => content}
        onClose={close}
      />
    </>
  )
}
