import { useRef, useState } from 'preact/hooks'
import type { View } from '../../shared/bridge'
import { useDraft } from '../../shared/draft'
import { failed, toast } from '../../shared/toast'
import { bytes, message, number, plural } from '../../shared/words'
import { ACCEPTED, importFile, tableName } from '../../viewer/files'
import { EVERYTHING } from '../../viewer/rows'
import { DeleteForGood, focus, TABS, Viewer, type Permissions, type Place, type Tab } from '../../viewer/viewer'
import '../../viewer/viewer.css'
import { get, tool } from '../api'
import { bridge } from '../bridge'
import { Awaited, useLoaded } from '../loading'
import { go, to, where } from '../router'
import { useTitle } from '../title'

const MAX_NAME_CHARS = 120
const MAX_DESCRIPTION_CHARS = 1000
const NO_TABLE = 'labels' // a write needs the name of a table, and makes none without records

interface Labels {
  name: string
  description: string
}

interface Portal extends Labels {
  uri: string
  tables: string[]
  rows: number
  bytes: number
}

export default function Portals() {
  const [, namespace, portal] = where.value.path
  if (namespace && portal) return <OnePortal key={`${namespace}/${portal}`} uri={`mem://${namespace}/${portal}`} />
  return <All />
}

/** What the person may do here: nothing until the server has said so. */
function usePermissions(): Permissions {
  const scopes = useLoaded(() => get<{ scopes: string[] }>('/api/me'), [], {}).value?.scopes ?? []
  return { write: scopes.includes('write_memory'), delete: scopes.includes('delete_memory') }
}

function All() {
  const portals = useLoaded(() => get<{ portals: Portal[] }>('/api/portals'), [])
  const may = usePermissions()
  return (
    <>
      <h1>Portals</h1>
      <Awaited of={portals}>
        {({ portals: found }) =>
          found.length ? (
            <div class="scroll" tabIndex={0} role="region" aria-label="Portals">
              <table>
                <thead>
                  <tr>
                    <th scope="col">Portal</th>
                    <th scope="col">Tables</th>
                    <th scope="col" class="num">
                      Rows
                    </th>
                    <th scope="col" class="num">
                      Size
                    </th>
                  </tr>
                </thead>
                <tbody>
                  {found.map((one) => (
                    <tr key={one.uri}>
                      <td>
                        <a href={to(['portals', ...one.uri.replace('mem://', '').split('/')])}>{one.name || one.uri}</a>
                        {one.name && (
                          <div>
                            <code class="mut">{one.uri}</code>
                          </div>
                        )}
                        {one.description && <span class="snippet">{one.description}</span>}
                      </td>
                      <td>
                        {one.tables.slice(0, 8).join(', ')}
                        {one.tables.length > 8 ? ` and ${plural(one.tables.length - 8, 'more', 'more')}` : ''}
                      </td>
                      <td class="num">{number(one.rows)}</td>
                      <td class="num">{bytes(one.bytes)}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          ) : (
            <p class="empty">
              There is no portal yet. An agent makes one when it is asked to keep a table
              {may.write ? '; or make one of a file, below' : ''}.
            </p>
          )
        }
      </Awaited>
      {may.write && <NewPortal />}
    </>
  )
}

/** A portal is made by what is written to it first: here, a file. */
function NewPortal() {
  const [name, setName] = useState('')
  const [file, setFile] = useState<File | null>(null)
  const [isBusy, setBusy] = useState(false)
  const [trouble, setTrouble] = useState('')
  async function make(event: Event) {
    event.preventDefault()
    if (!file || isBusy) return
    const [namespace, portal] = name.includes('/') ? name.split('/', 2) : ['default', name]
    setBusy(true)
    setTrouble('')
    try {
      const imported = await importFile(bridge, `mem://${namespace}/${portal}`, file, tableName(file.name), () => {})
      toast(`Imported ${plural(imported, 'row')}`)
      go(to(['portals', namespace!, portal!]))
    } catch (error) {
      setTrouble(message(error))
      setBusy(false)
    }
  }
  return (
    <form class="card bar" aria-label="New portal" onSubmit={make}>
      <label>
        New portal{' '}
        <input
          required
          value={name}
          placeholder="shop/orders"
          pattern="[^\/]+(\/[^\/]+)?"
          title="A name, or namespace/name"
          onInput={(event) => setName(event.currentTarget.value.trim())}
        />
      </label>
      <label>
        of a file{' '}
        <input
          required
          type="file"
          accept={ACCEPTED}
          onChange={(event) => setFile(event.currentTarget.files?.[0] ?? null)}
        />
      </label>
      <button class="primary" disabled={isBusy}>
        Import
      </button>
      {trouble && (
        <p class="trouble" role="alert">
          {trouble}
        </p>
      )}
    </form>
  )
}

function OnePortal({ uri }: { uri: string }) {
  const [first] = useState(() => ({ current: null as View | null }))
  const view = useLoaded(async () => (first.current ??= await tool<View>('portal_view', { portalUri: uri })), [uri], {})
  const times = useRef(-1)
  const load = async () => {
    const portal = await find(uri)
    times.current++ // the viewer looks again after the first time
    return { portal, revision: times.current }
  }
  const listed = useLoaded(load, [uri], { uris: (changed) => changed === uri })
  const may = usePermissions()
  const portal = listed.value?.portal
  useTitle(portal?.name ?? '')
  if (portal === null && view.value) return <Gone uri={uri} />
  return (
    <>
      {portal && view.value ? (
        <Heading key={uri} portal={portal} may={may} />
      ) : (
        <p>
          <a href="/portals">Portals</a>
        </p>
      )}
      <Awaited of={view}>
        {(found) => (
          <Viewer
            bridge={bridge}
            first={found}
            place={place()}
            onPlace={remember}
            revision={listed.value?.revision}
            may={may}
          />
        )}
      </Awaited>
    </>
  )
}

async function find(uri: string): Promise<Portal | null> {
  const { portals } = await get<{ portals: Portal[] }>('/api/portals')
  return portals.find((portal) => portal.uri === uri) ?? null
}

function Gone({ uri }: { uri: string }) {
  return (
    <>
      <p>
        <a href="/portals">Portals</a>
      </p>
      <h1>Portal {uri}</h1>
      <p class="empty" role="alert">
        This portal was deleted.
      </p>
    </>
  )
}

function Heading({ portal, may }: { portal: Portal; may: Permissions }) {
  const [isEditing, setEditing] = useState(false)
  const opener = useRef<HTMLButtonElement>(null)
  const close = () => {
    setEditing(false)
    requestAnimationFrame(() => opener.current?.focus())
  }
  const address = portal.uri.replace('mem://', '')
  async function deletePortal() {
    try {
      const { deleted } = await tool<{ deleted: number }>('portal_delete', { portalUri: portal.uri, confirm: true })
      go('/portals')
      toast(`The portal ${address} with ${plural(deleted, 'row')} is deleted`)
    } catch (error) {
      failed(error)
    }
  }
  return (
    <>
      <div class="bar">
        <p>
          <a href="/portals">Portals</a>
        </p>
        <span class="space" />
        {may.write && !isEditing && (
          <button ref={opener} onClick={() => setEditing(true)}>
            Edit name…
          </button>
        )}
        {may.delete && <DeleteForGood what="portal" name={address} act={deletePortal} />}
      </div>
      {isEditing && <EditLabels portal={portal} close={close} />}
    </>
  )
}

/** Saves what was changed and nothing else: the rest may be newer than what is shown. */
function EditLabels({ portal, close }: { portal: Portal; close: () => void }) {
  const kept = useDraft<Labels>(`portal:${portal.uri}`, { name: portal.name, description: portal.description })
  const [isBusy, setBusy] = useState(false)
  const [trouble, setTrouble] = useState('')
  const { base, draft } = kept
  const leave = () => (kept.forget(), close())
  async function save(event: Event) {
    event.preventDefault()
    if (isBusy) return
    setBusy(true)
    setTrouble('')
    try {
      await write(portal.uri, base, draft)
      leave()
      toast('Saved')
    } catch (error) {
      setTrouble(
        message(error)
          .replace(/^portalName\b/, 'Name')
          .replace(/^portalDescription\b/, 'Description'),
      )
      setBusy(false)
    }
  }
  return (
    <form
      class="card stack"
      aria-label="Name and description"
      onSubmit={save}
      onKeyDown={(event) => event.key === 'Escape' && leave()}
    >
      <label>
        Name{' '}
        <input
          ref={focus}
          maxLength={MAX_NAME_CHARS}
          value={draft.name}
          placeholder={portal.uri}
          onInput={(event) => kept.set({ ...draft, name: event.currentTarget.value })}
        />
      </label>
      <label>
        Description{' '}
        <input
          maxLength={MAX_DESCRIPTION_CHARS}
          value={draft.description}
          onInput={(event) => kept.set({ ...draft, description: event.currentTarget.value })}
        />
      </label>
      {trouble && (
        <p class="trouble" role="alert">
          {trouble}
        </p>
      )}
      <div class="bar">
        <button class="primary" disabled={isBusy}>
          {isBusy ? 'Saving…' : 'Save'}
        </button>
        <button type="button" onClick={leave}>
          Cancel
        </button>
      </div>
    </form>
  )
}

async function write(uri: string, base: Labels, draft: Labels): Promise<void> {
  const changed = {
    ...(draft.name !== base.name ? { portalName: draft.name.trim() } : {}),
    ...(draft.description !== base.description ? { portalDescription: draft.description.trim() } : {}),
  }
  if (!Object.keys(changed).length) return
  if (!(await find(uri))) throw new Error('This portal was deleted.') // a write would make it again
  await tool('portal_write', { portalUri: uri, table: NO_TABLE, data: [], ...changed })
}

function place(): Place {
  const { table, tab, sort, search = '', query = '', ...rest } = where.value.query
  const filters = Object.fromEntries(
    Object.entries(rest)
      .filter(([name]) => name.startsWith('is.'))
      .map(([name, value]) => [name.slice(3), value]),
  )
  return {
    table,
    tab: tab && tab in TABS ? (tab as Tab) : 'data',
    wish: { ...EVERYTHING, sort: sort?.replace(/^-/, ''), descending: Boolean(sort?.startsWith('-')), search, filters },
    query,
  }
}

/** Choosing adds a step that Back undoes, typing does not. */
function remember({ table, tab, wish, query }: Place, isTyping: boolean): void {
  const filters = Object.fromEntries(Object.entries(wish.filters).map(([name, value]) => ['is.' + name, value]))
  const sort = wish.sort && (wish.descending ? '-' : '') + wish.sort
  const height = scrollY
  go(
    to(where.value.path, {
      table,
      tab: tab === 'data' ? undefined : tab,
      sort,
      search: wish.search,
      query,
      ...filters,
    }),
    isTyping,
  )
  scrollTo(0, height)
}
