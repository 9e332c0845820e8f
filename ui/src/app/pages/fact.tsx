// A fact of the vault: to read, edit and delete.
import { get, tool } from '../api'
import { DocumentEditor, DocumentPage } from '../document-editor'
import { Markdown } from '../markdown'
import { useResource } from '../resource'
import { usePageTitle } from '../title'
import { href } from '../urls'
import { editMemory, MemoryHeading, Origin, Source, useWrites, WriteList } from './memory'

interface Fact {
  key: string
  content: string
  tags: string[]
  created_at: string
  updated_at: string
}

const load = async (ref: string) => (await get('/api/open', { query: { ref } })) as Fact

export function FactPage({ reference, title }: { reference: string; title: string }) {
  const fact = useResource(() => load(reference), [reference], { uris: (uri) => uri === reference })
  return (
    <DocumentPage
      title={title}
      resource={fact}
      view={(found) => <FactView reference={reference} fact={found} />}
      edit={(found) => <EditFact reference={reference} fact={found} reload={fact.reload} />}
    />
  )
}

function FactView({ reference, fact }: { reference: string; fact: Fact }) {
  const writes = useWrites(reference, fact.updated_at)
  const vault = <a href={href(['memories'], { family: 'vault' })}>A fact</a>
  return (
    <article class="note">
      <MemoryHeading reference={reference} title={fact.key} />
      <Origin place={vault} created={fact.created_at} updated={fact.updated_at} writes={writes} />
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
      <WriteList writes={writes} />
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
        reload={reload}
      />
    </>
  )
}
