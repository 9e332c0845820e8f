import { useEffect, useRef, useState } from 'preact/hooks'
import { Sure } from '../../shared/sure'
import { failed, toast } from '../../shared/toast'
import { ago, message, plural } from '../../shared/words'
import { get, post, tool } from '../api'
import { Awaited, useLoaded } from '../loading'
import { Markdown } from '../markdown'
import { go, to, where } from '../router'

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
      <div class="bar heading">
        <h1>Stores</h1>
        <span class="space" />
        <a class="button primary" href={to(['stores', store ?? 'default', ...(isFile() ? way.slice(0, -1) : way)], { new: '1' })}>New file</a>
      </div>
      <Awaited of={stores}>
        {(found) => (
          <>
            {found.stores.length > 0 && (
              <nav aria-label="Stores" class="bar">
                {found.stores.map(({ name }) => <a key={name} class="button" aria-current={name === store ? 'page' : undefined} href={to(['stores', name])}>{name}</a>)}
              </nav>
            )}
            {store && where.value.query.new ? (
              <NewFile key={store + way} store={store} category={way.join('/')} stores={found.stores.map(({ name }) => name)} />
            ) : store ? (
              <Inside key={store} store={store} way={way} />
            ) : found.stores.length ? (
              <p class="mut">Choose a store. Each is a folder of markdown files that people read, edit and commit.</p>
            ) : (
              <p class="empty">There is no store yet. Write a first file above, or let an agent do so with add_memory; <code>memory-mcp stores add NAME FOLDER</code> adds a folder that is there.</p>
            )}
          </>
        )}
      </Awaited>
    </>
  )
}

const isFile = () => Boolean(where.value.query.file)

function NewFile({ store, category, stores }: { store: string; category: string; stores: string[] }) {
  const [draft, setDraft] = useState({ store, path: category && category + '/', content: '', tags: '' })
  const [trouble, setTrouble] = useState('')
  const first = useRef<HTMLInputElement>(null)
  useEffect(() => first.current?.focus(), [])
  const set = (part: Partial<typeof draft>) => setDraft({ ...draft, ...part })
  async function save() {
    const path = draft.path.trim().replace(/\.md$/, '')
    try {
      await tool('add_memory', { store: draft.store.trim(), path, content: draft.content, tags: draft.tags.split(/[,\s]+/).filter(Boolean) })
      toast('Written')
      go(to(['stores', draft.store.trim(), ...path.split('/')], { file: '1' }), true)
    } catch (error) {
      setTrouble(message(error))
    }
  }
  const onKey = (event: KeyboardEvent) => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey) && draft.path && draft.content.trim()) save()
    else if (event.key === 'Escape') history.back()
    else return
    event.preventDefault()
  }
  return (
    <form class="editor-form" aria-label="New file" onKeyDown={onKey} onSubmit={(event) => (event.preventDefault(), save())}>
      <div class="bar">
        <label>Store <input required value={draft.store} list="stores" onInput={(event) => set({ store: event.currentTarget.value })} /></label>
        <datalist id="stores">{stores.map((name) => <option key={name} value={name} />)}</datalist>
        <label>Path <input ref={first} required value={draft.path} placeholder="people/ann" onInput={(event) => set({ path: event.currentTarget.value })} /></label>
        <label>Tags <input value={draft.tags} placeholder="people, work" onInput={(event) => set({ tags: event.currentTarget.value })} /></label>
      </div>
      <label>Markdown<textarea required rows={14} value={draft.content} onInput={(event) => set({ content: event.currentTarget.value })} /></label>
      {trouble && <p class="trouble" role="alert">{trouble}</p>}
      <div class="bar"><button class="primary" disabled={!draft.content.trim()}>Save</button><span class="keys"><kbd>Ctrl</kbd> <kbd>Enter</kbd></span><button type="button" onClick={() => history.back()}>Cancel</button></div>
    </form>
  )
}

function Inside({ store, way }: { store: string; way: string[] }) {
  const path = way.join('/')
  return (
    <div class="split">
      <nav aria-label={`Files of ${store}`} class="tree"><Branch store={store} category="" open={way} file={isFile() ? path : ''} /></nav>
      <div>{isFile() ? <FileView key={path} store={store} path={path} /> : <Crumbs store={store} way={way} />}</div>
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
  const [isAsking, setAsking] = useState(false)
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
  async function remove(isSure: boolean) {
    const place = `/api/stores/${encodeURIComponent(store)}/file`
    try {
      const { data, changed_ns, comes_back } = await get<{ data: string; changed_ns: string; comes_back: boolean }>(`${place}?path=${encodeURIComponent(path)}`)
      if (!comes_back && !isSure) {
        setAsking(true)
        return
      }
      await tool('remove_memory', { store, path })
      const putBack = async () => {
        await post(place, { path, data, changed_ns })
        toast(`${path} is back, as it was`)
        go(to(['stores', store, ...path.split('/')], { file: '1' }))
      }
      go(to(['stores', store, ...path.split('/').slice(0, -1)]))
      toast(`${path} is deleted`, comes_back ? { undo: putBack } : {})
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
            {isAsking && <Sure title={`Delete ${last(path)}?`} text="It cannot be undone: the file is too large, or has a name that only some systems allow." no="Keep it" yes="Delete for good" act={() => remove(true)} leave={() => setAsking(false)} />}
            {draft === null && <button onClick={() => setDraft(content)}>Edit</button>}
            {draft === null && <button class="danger" onClick={() => remove(false)}>Delete</button>}
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
