import { useEffect, useRef, useState } from 'preact/hooks'
import type { ToolResult } from '../../shared/api-types'
import { Confirm } from '../../shared/confirm'
import { ago, plural } from '../../shared/format'
import { showError, toast } from '../../shared/toast'
import { get, post, tool } from '../api'
import { Markdown } from '../markdown'
import { Await, useResource } from '../resource'
import { navigate, route } from '../router'
import { fileRef } from '../refs'
import { href } from '../urls'
import { originLabel } from '../writes'
import { useWrites, WriteList } from './memory'
import { EditFile, fileHref, NewFile } from './store-editor'

type StoreFile = ToolResult<'get_memory'>

interface FileProps {
  store: string
  path: string
}

const STORE_CHANGES = { topics: ['stores'] }
const baseName = (path: string) => path.split('/').pop()!

export function Stores() {
  const [, named, ...parts] = route.value.path
  const stores = useResource(() => get('/api/stores'), [], STORE_CHANGES)
  const store = named ?? (stores.value?.stores.length === 1 ? stores.value.stores[0]!.name : undefined)
  return (
    <>
      <div class="bar heading">
        <h1>Files</h1>
        <span class="space" />
        <a
          class="button primary"
          href={href(['stores', store ?? 'default', ...(isFile() ? parts.slice(0, -1) : parts)], { new: '1' })}
        >
          New file
        </a>
      </div>
      <Await resource={stores}>
        {(found) => (
          <>
            {found.stores.length > 0 && (
              <nav aria-label="Stores" class="bar">
                {found.stores.map(({ name }) => (
                  <a
                    key={name}
                    class="button"
                    aria-current={name === store ? 'page' : undefined}
                    href={href(['stores', name])}
                  >
                    {name}
                  </a>
                ))}
              </nav>
            )}
            {store && route.value.query.new ? (
              <NewFile
                key={`${store}/${parts.join('/')}`}
                store={store}
                category={parts.join('/')}
                stores={found.stores.map(({ name }) => name)}
              />
            ) : store ? (
              <StoreBrowser key={store} store={store} parts={parts} />
            ) : found.stores.length ? (
              <p class="mut">Choose a store. Each is a folder of markdown files that people read, edit and commit.</p>
            ) : (
              <p class="empty">
                There is no store yet. Create the first file with “New file”, or ask an agent to keep what it learns in
                files; <code>memory-mcp stores add NAME FOLDER</code> adds an existing folder.
              </p>
            )}
          </>
        )}
      </Await>
    </>
  )
}

const isFile = () => Boolean(route.value.query.file)

function StoreBrowser({ store, parts }: { store: string; parts: string[] }) {
  const path = parts.join('/')
  return (
    <div class="split">
      <nav aria-label={`Files of ${store}`} class="tree">
        <TreeBranch store={store} category="" open={parts} file={isFile() ? path : ''} />
      </nav>
      <div>
        {isFile() ? <FileView key={path} store={store} path={path} /> : <EmptyPane store={store} parts={parts} />}
      </div>
    </div>
  )
}

function EmptyPane({ store, parts }: { store: string; parts: string[] }) {
  const category = parts.join('/')
  const found = useResource(
    () => tool('list_memories', { store, include_expired: true, ...(category ? { category } : {}) }),
    [store, category],
    STORE_CHANGES,
  )
  if (found.error && category) {
    return (
      <p class="empty" role="alert">
        There is no {parts.join(' / ')} in {store}. <a href={href(['stores', store])}>All of {store}</a>
      </p>
    )
  }
  return <p class="empty">{category ? parts.join(' / ') : store}: choose a file.</p>
}

function TreeBranch({
  store,
  category,
  open,
  file,
}: {
  store: string
  category: string
  open: string[]
  file: string
}) {
  const found = useResource(
    () => tool('list_memories', { store, include_expired: true, ...(category ? { category } : {}) }),
    [store, category],
    STORE_CHANGES,
  )
  return (
    <Await resource={found}>
      {({ memories, subcategories, notice }) => (
        <ul>
          {subcategories.map((path) => {
            const isOpen = open[path.split('/').length - 1] === baseName(path) && open.join('/').startsWith(path)
            return (
              <li key={path}>
                <a
                  aria-expanded={isOpen}
                  href={href(['stores', store, ...(isOpen ? path.split('/').slice(0, -1) : path.split('/'))])}
                >
                  {baseName(path)}/
                </a>
                {isOpen && <TreeBranch store={store} category={path} open={open} file={file} />}
              </li>
            )
          })}
          {memories.map((memory) => (
            <li key={memory.path}>
              <a
                aria-current={memory.path === file ? 'page' : undefined}
                title={memory.summary}
                href={fileHref(store, memory.path)}
              >
                {baseName(memory.path)}
              </a>
              {memory.expired && <span class="mut"> expired</span>}
            </li>
          ))}
          {!memories.length && !subcategories.length && <li class="mut">empty</li>}
          {notice && <li class="mut">{notice}</li>}
        </ul>
      )}
    </Await>
  )
}

function FileView({ store, path }: FileProps) {
  const load = () => tool('get_memory', { store, path, include_expired: true })
  const file = useResource(load, [store, path], STORE_CHANGES)
  const isEditing = Boolean(route.value.query.edit)
  const edit = useRef<HTMLAnchorElement>(null)
  const wasEditing = useRef(isEditing)
  useEffect(() => {
    if (wasEditing.current && !isEditing) edit.current?.focus()
    wasEditing.current = isEditing
  }, [isEditing])
  const render = (found: StoreFile) =>
    isEditing ? (
      <EditFile store={store} path={path} file={found} reload={file.reload} />
    ) : (
      <article>
        <div class="bar heading">
          <h2>{path}</h2>
          <span class="space" />
          <a ref={edit} class="button" href={href(route.value.path, { file: '1', edit: '1' })}>
            Edit
          </a>
          <DeleteButton store={store} path={path} />
        </div>
        <FileText store={store} path={path} file={found} />
      </article>
    )
  return (
    <Await resource={file} keepStale={isEditing}>
      {render}
    </Await>
  )
}

function FileText({ store, path, file }: FileProps & { file: StoreFile }) {
  const writes = useWrites(fileRef(store, path), file.metadata.updated_at ?? '')
  return (
    <>
      <p class="mut">
        {describe(file)}
        {writes.length > 0 && ` · last by ${originLabel(writes[0]!.origin)}`}
      </p>
      <Markdown text={file.content} />
      <WriteList writes={writes} />
    </>
  )
}

function describe({ metadata: { updated_at, tags = [], citations = [] } }: StoreFile): string {
  const parts = [ago(updated_at), tags.map((tag) => '#' + tag).join(' ')]
  if (citations.length) parts.push(plural(citations.length, 'citation'))
  return parts.filter(Boolean).join(' · ')
}

function DeleteButton({ store, path }: FileProps) {
  const [isConfirming, setConfirming] = useState(false)
  async function deleteFile(isConfirmed: boolean) {
    const url = '/api/stores/{store}/file'
    try {
      const { data, changed_ns, comes_back } = await get(url, { path: { store }, query: { path } })
      if (!comes_back && !isConfirmed) {
        setConfirming(true)
        return
      }
      await tool('remove_memory', { store, path })
      const restore = async () => {
        await post(url, { path: { store }, body: { path, data, changed_ns } })
        toast(`${path} is restored`)
        navigate(fileHref(store, path))
      }
      navigate(href(['stores', store, ...path.split('/').slice(0, -1)]))
      toast(`${path} is deleted`, comes_back ? { undo: restore } : {})
    } catch (error) {
      showError(error)
    }
  }
  return (
    <>
      <button class="danger" onClick={() => deleteFile(false)}>
        Delete
      </button>
      {isConfirming && (
        <Confirm
          title={`Delete ${baseName(path)}?`}
          text="It cannot be undone: the file is too large, or has a name that only some systems allow."
          cancelLabel="Keep it"
          confirmLabel="Delete permanently"
          onConfirm={() => void deleteFile(true)}
          onClose={() => setConfirming(false)}
        />
      )}
    </>
  )
}
