import { useLayoutEffect, useRef } from 'preact/hooks'
import type { ToolResult } from '../../shared/api-types'
import { toast } from '../../shared/toast'
import { post, tool } from '../api'
import { DocumentEditor } from '../document-editor'
import { Editor } from '../editor'
import { splitTags } from '../note-fields'
import { navigate } from '../router'
import { href } from '../urls'

export const fileHref = (store: string, path: string) => href(['stores', store, ...path.split('/')], { file: '1' })

interface NewFields {
  store: string
  path: string
  content: string
  tags: string
}

interface NewProps {
  store: string
  category: string
  stores: string[]
}

export function NewFile({ store, category, stores }: NewProps) {
  async function save(fields: NewFields) {
    const [target, path] = [fields.store.trim(), fields.path.trim().replace(/\.md$/, '')]
    await tool('add_memory', { store: target, path, content: fields.content, tags: splitTags(fields.tags) })
    return () => {
      toast('Saved')
      navigate(fileHref(target, path), true)
    }
  }
  return (
    <Editor
      kind="file"
      label="New file"
      draftKey={`file:new:${store}/${category}`}
      initial={{ store, path: category && category + '/', content: '', tags: '' }}
      focusesText={false}
      above={(fields, set) => <Location fields={fields} set={set} stores={stores} />}
      save={save}
      textOf={({ content }) => content}
      onClose={() => navigate(href(['stores', store, ...category.split('/').filter(Boolean)]), true)}
    />
  )
}

interface LocationProps {
  fields: NewFields
  set: (part: Partial<NewFields>) => void
  stores: string[]
}

function Location({ fields, set, stores }: LocationProps) {
  const path = useRef<HTMLInputElement>(null)
  useLayoutEffect(() => path.current?.focus(), [])
  return (
    <div class="bar">
      <label>
        Store{' '}
        <input
          required
          value={fields.store}
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
          ref={path}
          required
          value={fields.path}
          placeholder="people/ann"
          onInput={(event) => set({ path: event.currentTarget.value })}
        />
      </label>
      <label>
        Tags{' '}
        <input
          value={fields.tags}
          placeholder="people, work"
          onInput={(event) => set({ tags: event.currentTarget.value })}
        />
      </label>
    </div>
  )
}

interface EditProps {
  store: string
  path: string
  file: ToolResult<'get_memory'>
  reload: () => void
}

export function EditFile({ store, path, file, reload }: EditProps) {
  const load = async () => ({ content: (await tool('get_memory', { store, path, include_expired: true })).content })
  return (
    <>
      <h2>{path}</h2>
      <DocumentEditor
        kind="file"
        title={path}
        draftKey={`file:${store}/${path}`}
        initial={{ content: file.content }}
        load={load}
        update={({ content }, seen) =>
          post('/api/stores/{store}/edit', { path: { store }, body: { path, content, was: seen.content } })
        }
        create={({ content }) => tool('add_memory', { store, path, content, tags: file.metadata.tags })}
        reload={reload}
      />
    </>
  )
}
