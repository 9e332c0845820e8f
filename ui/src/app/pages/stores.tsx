import { useEffect, useState } from 'preact/hooks'
import { failed, toast } from '../../shared/toast'
import { ago, plural } from '../../shared/words'
import { get, tool } from '../api'
import { Awaited, useLoaded } from '../loading'
import { Markdown } from '../markdown'
import { to, where } from '../router'

interface Category {
  memories: { path: string; token_estimate: number; summary: string; updated_at: string; expired: boolean }[]
  subcategories: string[]
  notice?: string
}

interface File {
  content: string
  metadata: { updated_at: string; tags: string[]; source: string | null; expires_at: string | null; citations: string[] }
}

const STORES = { topics: ['stores'] }
const last = (path: string) => path.split('/').pop()!

export function Stores() {
  const [, store, ...way] = where.value.path
  const stores = useLoaded(() => get<{ stores: { name: string }[] }>('/api/stores'), [], STORES)
  return (
    <>
      <h1>Stores</h1>
      <Awaited of={stores}>
        {(found) =>
          found.stores.length ? (
            <>
              <nav aria-label="Stores" class="bar">
                {found.stores.map(({ name }) => <a key={name} class="button" aria-current={name === store ? 'page' : undefined} href={to(['stores', name])}>{name}</a>)}
              </nav>
              {store ? <Inside key={store} store={store} way={way} /> : <p class="mut">Choose a store. Each is a folder of markdown files that people read, edit and commit.</p>}
            </>
          ) : (
            <p class="empty">There is no store yet. An agent makes one with add_memory; <code>memory-mcp stores add NAME FOLDER</code> adds a folder that is there.</p>
          )
        }
      </Awaited>
    </>
  )
}

function Inside({ store, way }: { store: string; way: string[] }) {
  const isFile = Boolean(where.value.query.file)
  const path = way.join('/')
  return (
    <div class="split">
      <nav aria-label={`Files of ${store}`} class="tree"><Branch store={store} category="" open={way} file={isFile ? path : ''} /></nav>
      <div>{isFile ? <FileView key={path} store={store} path={path} /> : <Crumbs store={store} way={way} />}</div>
    </div>
  )
}

function Crumbs({ store, way }: { store: string; way: string[] }) {
  return <p class="empty">{way.length ? way.join(' / ') : store}: choose a file.</p>
}

function Branch({ store, category, open, file }: { store: string; category: string; open: string[]; file: string }) {
  const found = useLoaded(() => tool<Category>('list_memories', { store, include_expired: true, ...(category ? { category } : {}) }), [store, category], STORES)
  return (
    <Awaited of={found}>
      {({ memories, subcategories, notice }) => (
        <ul>
          {subcategories.map((path) => {
            const isOpen = open[path.split('/').length - 1] === last(path) && open.join('/').startsWith(path)
            return (
              <li key={path}>
                <a aria-expanded={isOpen} href={to(['stores', store, ...(isOpen ? path.split('/').slice(0, -1) : path.split('/'))])}>{last(path)}/</a>
                {isOpen && <Branch store={store} category={path} open={open} file={file} />}
              </li>
            )
          })}
          {memories.map((one) => (
            <li key={one.path}>
              <a aria-current={one.path === file ? 'page' : undefined} title={one.summary} href={to(['stores', store, ...one.path.split('/')], { file: '1' })}>{last(one.path)}</a>
              {one.expired && <span class="mut"> expired</span>}
            </li>
          ))}
          {!memories.length && !subcategories.length && <li class="mut">empty</li>}
          {notice && <li class="mut">{notice}</li>}
        </ul>
      )}
    </Awaited>
  )
}

function FileView({ store, path }: { store: string; path: string }) {
  const file = useLoaded(() => tool<File>('get_memory', { store, path, include_expired: true }), [store, path], STORES)
  const [draft, setDraft] = useState<string | null>(null)
  useEffect(() => setDraft(null), [path])
  async function save(event: Event) {
    event.preventDefault()
    try {
      await tool('update_memory', { store, path, content: draft })
      setDraft(null)
      file.again()
      toast('Saved')
    } catch (error) {
      failed(error)
    }
  }
  return (
    <Awaited of={file}>
      {({ content, metadata }) => (
        <article>
          <div class="bar heading">
            <h2>{path}</h2>
            <span class="space" />
            {draft === null && <button onClick={() => setDraft(content)}>Edit</button>}
          </div>
          <p class="mut">{ago(metadata.updated_at)}{metadata.tags.length ? ' · ' + metadata.tags.map((tag) => '#' + tag).join(' ') : ''}{metadata.citations.length ? ' · ' + plural(metadata.citations.length, 'citation') : ''}</p>
          {draft === null ? (
            <Markdown text={content} />
          ) : (
            <form class="editor-form" onSubmit={save}>
              <label>Markdown<textarea rows={18} value={draft} onInput={(event) => setDraft(event.currentTarget.value)} /></label>
              <div class="bar"><button class="primary" disabled={!draft.trim()}>Save</button><button type="button" onClick={() => setDraft(null)}>Cancel</button></div>
            </form>
          )}
        </article>
      )}
    </Awaited>
  )
}
