// An entity of a graph, with its observations and relations: to read, edit and delete.
import type { Entity, Relation } from '../../shared/api-types'
import { get, tool } from '../api'
import { DocumentEditor, DocumentPage } from '../document-editor'
import { Markdown } from '../markdown'
import { observationsJson, observationsOf, observationsText } from '../observations'
import { useResource } from '../resource'
import { usePageTitle } from '../title'
import { href } from '../urls'
import { EntityRelations } from './entity-relations'
import { editMemory, MemoryHeading, Origin, Source, useWrites, WriteList } from './memory'

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
  const found = useResource(() => load(reference), [reference], { topics: ['graph'] })
  const shared = { reference, project, reload: found.reload }
  return (
    <DocumentPage
      title={title}
      resource={found}
      view={(value) => <EntityView {...shared} found={value} />}
      edit={(value) => <EditEntity {...shared} entity={value.entity} />}
    />
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
  const writes = useWrites(reference, entity.updated_at + entity.observations.length)
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
      <Origin place={place} created={entity.created_at} updated={entity.updated_at} writes={writes} />
      <Observations texts={entity.observations} />
      <EntityRelations project={project} name={entity.name} relations={relations} reload={reload} />
      <WriteList writes={writes} />
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

const textOf = ({ content, observations }: Fields) => observationsJson(observationsOf(content, observations))

function EditEntity({ reference, project, entity, reload }: EditProps) {
  const { name, entity_type } = entity
  usePageTitle(name)
  const create = ({ content, observations }: Fields) =>
    tool('create_entities', {
      project,
      entities: [{ name, entity_type, observations: observationsOf(content, observations) }],
    })
  return (
    <>
      <h1>{name}</h1>
      <DocumentEditor
        kind="entity"
        title={name}
        draftKey={reference}
        initial={fieldsOf(entity)}
        mayBeEmpty
        part="observations"
        load={async () => fieldsOf((await load(reference)).entity)}
        update={({ content }, { observations }) =>
          editMemory(reference, textOf({ content, observations }), observationsJson(observations))
        }
        create={create}
        reload={reload}
      />
    </>
  )
}
