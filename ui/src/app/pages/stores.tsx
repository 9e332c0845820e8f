import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { useDraft } from '../../shared/draft'
import { Sure } from '../../shared/sure'
import { failed, toast } from '../../shared/toast'
import { ago, message, plural } from '../../shared/words'
import { Refused, get, post, tool } from '../api'
import { Awaited, useLoaded } from '../loading'
import { Markdown } from '../markdown'
import { go, to, turn, where } from '../router'

interface Category {
  memories: { path: string; token_estimate: number; summary: string; updated_at: string; expired: boolean }[]
  subcategories: string[]
  notice?: string
}

interface File {
  content: string
  metadata: {
    updated_at: string
    tags: string[]
    source: string | null
    expires_at: string | null
    citations: string[]
  }
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
        <a
          class="button primary"
          href={to(['stores', store ?? 'default', ...(isFile() ? way.slice(0, -1) : way)], { new: '1' })}
        >
          New file
        </a>
      </div>
      <Awaited of={stores}>
        {(found) => (
          <>
            {found.stores.length > 0 && (
              <nav aria-label="Stores" class="bar">
                {found.stores.map(({ name }) => (
                  <a
                    key={name}
                    class="button"
                    aria-current={name === store ? 'page' : undefined}
                    href={to(['stores', name])}
                  >
                    {name}
                  </a>
                ))}
              </nav>
            )}
            {store && where.value.query.new ? (
              <NewFile
                key={store + way}
                store={store}
                category={way.join('/')}
                stores={found.stores.map(({ name }) => name)}
              />
            ) : store ? (
              <Inside key={store} store={store} way={way} />
            ) : found.stores.length ? (
              <p class="mut">Choose a store. Each is a folder of markdown files that people read, edit and commit.</p>
            ) : (
              <p class="empty">
                There is no store yet. Write a first file above, or let an agent do so with add_memory;{' '}
                <code>memory-mcp stores add NAME FOLDER</code> adds a folder that is there.
              </p>
            )}
          </>
        )}
      </Awaited>
    </>
  )
}

const isFile = () => Boolean(where.value.query.file)

const left = () => toast('Not saved yet: what you wrote waits where you wrote it')

function NewFile({ store, category, stores }: { store: string; category: string; stores: string[] }) {
  const kept = useDraft(
    `file:new:${store}/${category}`,
    { store, path: category && category + '/', content: '', tags: '' },
    left,
  )
  const [trouble, setTrouble] = useState('')
  const [isBusy, setBusy] = useState(false)
  const [isAsking, setAsking] = useState(false)
  const first = useRef<HTMLInputElement>(null)
  useLayoutEffect(() => first.current?.focus(), [])
  const { draft } = kept
  const set = (part: Partial<typeof draft>) => kept.set({ ...draft, ...part })
  const leave = () => go(to(['stores', store, ...category.split('/').filter(Boolean)]), true)
  const cancel = () => (kept.isChanged ? setAsking(true) : leave())
  async function save() {
    if (isBusy) return
    setBusy(true)
    const path = draft.path.trim().replace(/\.md$/, '')
    try {
      await tool('add_memory', {
        store: draft.store.trim(),
        path,
        content: draft.content,
        tags: draft.tags
          .split(',')
          .map((tag) => tag.trim())
          .filter(Boolean),
      })
      kept.forget()
      toast('Written')
      go(to(['stores', draft.store.trim(), ...path.split('/')], { file: '1' }), true)
    } catch (error) {
      setTrouble(message(error))
      setBusy(false)
    }
  }
  const onKey = (event: KeyboardEvent) => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey) && draft.path && draft.content.trim()) save()
    else if (event.key === 'Escape' && !isAsking) cancel()
    else return
    event.preventDefault()
  }
  return (
    <form
      class="editor-form"
      aria-label="New file"
      onKeyDown={onKey}
      onSubmit={(event) => (event.preventDefault(), save())}
    >
      <div class="bar">
        <label>
          Store{' '}
          <input
            required
            value={draft.store}
            list="stores"
            onInput={(event) => set({ store: event.currentTarget.value })}
          />
        </label>
        <datalist id="stores">
          {stores.map((name) => (
            <option key={name} value={name} />
          ))}
        </datalist>
        <label>
          Path{' '}
          <input
            ref={first}
            required
            value={draft.path}
            placeholder="people/ann"
            onInput={(event) => set({ path: event.currentTarget.value })}
          />
        </label>
        <label>
          Tags{' '}
          <input
            value={draft.tags}
            placeholder="people, work"
            onInput={(event) => set({ tags: event.currentTarget.value })}
          />
        </label>
      </div>
      <label>
        Markdown
        <textarea
          required
          rows={14}
          value={draft.content}
          onInput={(event) => set({ content: event.currentTarget.value })}
        />
      </label>
      {trouble && (
        <p class="trouble" role="alert">
          {trouble}
        </p>
      )}
      <div class="bar">
        <button class="primary" disabled={isBusy || !draft.content.trim()}>
          Save
        </button>
        <span class="keys">
          <kbd>Ctrl</kbd> <kbd>Enter</kbd>
        </span>
        <button type="button" onClick={cancel}>
          Cancel
        </button>
      </div>
      {isAsking && <Discarding discard={() => (kept.forget(), leave())} leave={() => setAsking(false)} />}
    </form>
  )
}

function Inside({ store, way }: { store: string; way: string[] }) {
  const path = way.join('/')
  return (
    <div class="split">
      <nav aria-label={`Files of ${store}`} class="tree">
        <Branch store={store} category="" open={way} file={isFile() ? path : ''} />
      </nav>
      <div>{isFile() ? <FileView key={path} store={store} path={path} /> : <Crumbs store={store} way={way} />}</div>
    </div>
  )
}

function Crumbs({ store, way }: { store: string; way: string[] }) {
  const category = way.join('/')
  const found = useLoaded(
    () => tool<Category>('list_memories', { store, include_expired: true, ...(category ? { category } : {}) }),
    [store, category],
    STORES,
  )
  if (found.trouble && category) {
    return (
      <p class="empty" role="alert">
        There is no {way.join(' / ')} in {store}. <a href={to(['stores', store])}>All of {store}</a>
      </p>
    )
  }
  return <p class="empty">{category ? way.join(' / ') : store}: choose a file.</p>
}

function Branch({ store, category, open, file }: { store: string; category: string; open: string[]; file: string }) {
  const found = useLoaded(
    () => tool<Category>('list_memories', { store, include_expired: true, ...(category ? { category } : {}) }),
    [store, category],
    STORES,
  )
  return (
    <Awaited of={found}>
      {({ memories, subcategories, notice }) => (
        <ul>
          {subcategories.map((path) => {
            const isOpen = open[path.split('/').length - 1] === last(path) && open.join('/').startsWith(path)
            return (
              <li key={path}>
                <a
                  aria-expanded={isOpen}
                  href={to(['stores', store, ...(isOpen ? path.split('/').slice(0, -1) : path.split('/'))])}
                >
                  {last(path)}/
                </a>
                {isOpen && <Branch store={store} category={path} open={open} file={file} />}
              </li>
            )
          })}
          {memories.map((one) => (
            <li key={one.path}>
              <a
                aria-current={one.path === file ? 'page' : undefined}
                title={one.summary}
                href={to(['stores', store, ...one.path.split('/')], { file: '1' })}
              >
                {last(one.path)}
              </a>
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
  const started = useRef<File>(undefined) // stays while one edits, whatever becomes of the file
  const isEditing = Boolean(where.value.query.edit)
  const edit = useRef<HTMLAnchorElement>(null)
  const wasEditing = useRef(isEditing)
  useEffect(() => {
    if (wasEditing.current && !isEditing) edit.current?.focus()
    wasEditing.current = isEditing
  }, [isEditing])
  started.current = isEditing ? (started.current ?? file.value) : undefined
  if (started.current) return <Editing store={store} path={path} file={started.current} done={file.again} />
  return (
    <Awaited of={file}>
      {({ content, metadata }) => (
        <article>
          <div class="bar heading">
            <h2>{path}</h2>
            <span class="space" />
            <a ref={edit} class="button" href={to(where.value.path, { file: '1', edit: '1' })}>
              Edit
            </a>
            <Deleting store={store} path={path} />
          </div>
          <p class="mut">
            {ago(metadata.updated_at)}
            {metadata.tags.length ? ' · ' + metadata.tags.map((tag) => '#' + tag).join(' ') : ''}
            {metadata.citations.length ? ' · ' + plural(metadata.citations.length, 'citation') : ''}
          </p>
          <Markdown text={content} />
        </article>
      )}
    </Awaited>
  )
}

function Deleting({ store, path }: { store: string; path: string }) {
  const [isAsking, setAsking] = useState(false)
  async function remove(isSure: boolean) {
    const place = `/api/stores/${encodeURIComponent(store)}/file`
    try {
      const { data, changed_ns, comes_back } = await get<{ data: string; changed_ns: string; comes_back: boolean }>(
        `${place}?path=${encodeURIComponent(path)}`,
      )
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
    <>
      <button class="danger" onClick={() => remove(false)}>
        Delete
      </button>
      {isAsking && (
        <Sure
          title={`Delete ${last(path)}?`}
          text="It cannot be undone: the file is too large, or has a name that only some systems allow."
          no="Keep it"
          yes="Delete for good"
          act={() => remove(true)}
          leave={() => setAsking(false)}
        />
      )}
    </>
  )
}

function Discarding({ discard, leave }: { discard: () => void; leave: () => void }) {
  return (
    <Sure
      title="Discard what you wrote?"
      text="It is not saved."
      no="Go on writing"
      yes="Discard"
      act={discard}
      leave={leave}
    />
  )
}

/** Saves over what the editor was started from, and over nothing else unless that was seen. */
function Editing({ store, path, file, done }: { store: string; path: string; file: File; done: () => void }) {
  const kept = useDraft(`file:${store}/${path}`, file.content, left)
  const [trouble, setTrouble] = useState('')
  const [theirs, setTheirs] = useState<string | null>(null) // what somebody else wrote meanwhile
  const [isGone, setGone] = useState(false)
  const [isBusy, setBusy] = useState(false)
  const [isAsking, setAsking] = useState(false)
  const text = useRef<HTMLTextAreaElement>(null)
  useLayoutEffect(() => text.current?.focus(), [])
  const leave = () => turn({ edit: '' }, true)
  const cancel = () => (kept.isChanged ? setAsking(true) : leave())
  const discard = () => {
    kept.forget()
    leave()
    done()
  }
  async function write(work: () => Promise<unknown>) {
    if (isBusy) return
    setBusy(true)
    setTrouble('')
    try {
      await work()
      toast('Saved')
      discard()
    } catch (error) {
      setBusy(false)
      await explain(error)
    }
  }
  async function explain(error: unknown) {
    const refused = error instanceof Refused ? error : null
    setGone(refused?.status === 404)
    if (refused?.word !== 'changed') return setTrouble(message(error))
    const now = await tool<File>('get_memory', { store, path, include_expired: true }).catch(explain)
    if (now) setTheirs(now.content)
  }
  const save = (was: string) =>
    write(() => post(`/api/stores/${encodeURIComponent(store)}/edit`, { path, content: kept.draft, was }))
  const saveAnew = () => write(() => tool('add_memory', { store, path, content: kept.draft, tags: file.metadata.tags }))
  const onKey = (event: KeyboardEvent) => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey) && kept.draft.trim()) save(kept.base)
    else if (event.key === 'Escape' && !isAsking) cancel()
    else return
    event.preventDefault()
  }
  return (
    <article>
      <h2>{path}</h2>
      <form
        class="editor-form"
        aria-label={`Edit ${path}`}
        onKeyDown={onKey}
        onSubmit={(event) => (event.preventDefault(), save(kept.base))}
      >
        {kept.isBack && (
          <p class="mut">
            This is what you wrote before and did not save.{' '}
            <button type="button" class="link" onClick={() => kept.forget(file.content)}>
              Start from the file
            </button>
          </p>
        )}
        <label>
          Markdown
          <textarea ref={text} rows={18} value={kept.draft} onInput={(event) => kept.set(event.currentTarget.value)} />
        </label>
        {trouble && (
          <p class="trouble" role="alert">
            {isGone ? 'Somebody has deleted this file meanwhile.' : trouble}{' '}
            {isGone && (
              <button type="button" onClick={saveAnew}>
                Write it anew
              </button>
            )}
          </p>
        )}
        {theirs !== null && (
          <div class="card" role="alert">
            <p>Somebody has changed this file meanwhile. It says now:</p>
            <pre tabIndex={0}>{theirs}</pre>
            <div class="bar">
              <button type="button" class="danger" onClick={() => save(theirs)}>
                Write mine over it
              </button>
              <button type="button" onClick={discard}>
                Keep theirs, discard mine
              </button>
            </div>
          </div>
        )}
        <div class="bar">
          <button class="primary" disabled={isBusy || !kept.draft.trim()}>
            Save
          </button>
          <span class="keys">
            <kbd>Ctrl</kbd> <kbd>Enter</kbd>
          </span>
          <button type="button" onClick={cancel}>
            Cancel
          </button>
        </div>
      </form>
      {isAsking && <Discarding discard={discard} leave={() => setAsking(false)} />}
    </article>
  )
}
