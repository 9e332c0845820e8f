// A fact of the vault: to read, edit and delete.
import { get, tool } from '../api'
import { DocumentEditor } from '../document-editor'
import { Markdown } from '../markdown'
import { Await, useResource } from '../resource'
import { route } from '../router'
import { usePageTitle } from '../title'
import { href } from '../urls'
import { closeMemoryEditor, editMemory, MemoryHeading, Origin, Source } from './memory'

interface Fact {
  key: string
  content: string
  tags: string[]
  created_at: string
  updated_at: string
}

const load = async (ref: string) => (await get('/api/open', { query: { ref } })) as Fact

export function FactPage({ reference, title }: { reference: string; title: string }) {
  const isEditing = Boolean(route.value.query.edit)
  const fact = useResource(() => load(reference), [reference], { uris: (uri) => uri === reference })
  const render = (found: Fact) =>
    isEditing ? (
      <EditFact reference={reference} fact={found} reload={fact.reload} />
    ) : (
      <FactView reference={reference} fact={found} />
    )
  return (
    <>
      {fact.error && !(isEditing && fact.value) && <h1>{title}</h1>}
      <Await resource={fact} keepStale={isEditing}>
        {render}
      </Await>
    </>
  )
}

function FactView({ reference, fact }: { reference: string; fact: Fact }) {
  const vault = <a href={href(['memories'], { family: 'vault' })}>A fact of the vault</a>
  return (
    <article class="note">
      <MemoryHeading reference={reference} title={fact.key} />
      <Origin place={vault} created={fact.created_at} updated={fact.updated_at} />
      {fact.tags.length > 0 && (
        <p>
          {fact.tags.map((tag) => (
            <a class="tag" key={tag} href={href(['memories'], { q: tag, family: 'vault' })}>
              #{tag}
            </a>
          ))}
        </p>
      )}
      <Markdown text={fact.content} />
      <Source reference={reference} value={fact} />
    </article>
  )
}

function EditFact({ reference, fact, reload }: { reference: string; fact: Fact; reload: () => void }) {
  usePageTitle(fact.key)
  return (
    <>
      <h1>{fact.key}</h1>
      <DocumentEditor
        kind="fact"
        title={fact.key}
        draftKey={reference}
        initial={{ content: fact.content }}
        load={async () => ({ content: (await load(reference)).content })}
        update={({ content }, seen) => editMemory(reference, content, seen.content)}
        create={({ content }) => tool('commit_memory', { scope: 'vault', key: fact.key, content, tags: fact.tags })}
        onClose={() => closeMemoryEditor(reference, reload)}
      />
    </>
  )
}
