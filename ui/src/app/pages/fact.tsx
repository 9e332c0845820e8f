// A fact of the vault: to read, edit and delete.
import { toast } from '../../shared/toast'
import { ApiError, get, post, tool } from '../api'
import { EditConflict, Editor } from '../editor'
import { Markdown } from '../markdown'
import { Await, useResource } from '../resource'
import { navigate, route } from '../router'
import { usePageTitle } from '../title'
import { href } from '../urls'
import { memoryHref, MemoryHeading, Origin, Source } from './memory'

interface Fact {
  key: string
  content: string
  tags: string[]
  created_at: string
  updated_at: string
}

interface Content {
  content: string
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
  const close = () => {
    navigate(memoryHref(reference), true)
    reload()
  }
  const finish = () => {
    toast('Saved')
    close()
  }
  async function save({ content }: Content, base: Content, seen = base) {
    try {
      await post('/api/memories/edit', { body: { ref: reference, text: content, was: seen.content } })
    } catch (error) {
      if (!(error instanceof ApiError && error.code === 'changed')) throw error
      throw new EditConflict({ content: (await load(reference)).content }, ['text'])
    }
    return finish
  }
  async function saveAsNew({ content }: Content) {
    await tool('commit_memory', { scope: 'vault', key: fact.key, content, tags: fact.tags })
    return finish
  }
  return (
    <>
      <h1>{fact.key}</h1>
      <Editor
        kind="fact"
        label={`Edit ${fact.key}`}
        draftKey={reference}
        initial={{ content: fact.content }}
        save={save}
        saveAsNew={saveAsNew}
        textOf={({ content }) => content}
        onClose={close}
      />
    </>
  )
}
