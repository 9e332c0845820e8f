import { useRef, useState } from 'preact/hooks'
import type { Schemas, View } from '../../shared/api-types'
import { useDraft } from '../../shared/draft'
import { bytes, errorMessage, number, plural } from '../../shared/format'
import { showError, toast } from '../../shared/toast'
import { DeletePermanently, focus } from '../../viewer/delete-permanently'
import { ACCEPTED, tableName } from '../../viewer/files'
import { ImportForm } from '../../viewer/import-form'
import { formatViewState, parseViewState, type Permissions, type ViewState } from '../../viewer/view-state'
import { Viewer } from '../../viewer/viewer'
import '../../viewer/viewer.css'
import { get, tool } from '../api'
import { bridge } from '../bridge'
import { Await, useResource } from '../resource'
import { navigate, route } from '../router'
import { usePageTitle } from '../title'
import { href } from '../urls'
import { Scroll } from '../../shared/scroll'

const MAX_LISTED_TABLES = 8
const MAX_NAME_CHARS = 120
const MAX_DESCRIPTION_CHARS = 1000
const UNUSED_TABLE = 'labels' // portal_write needs a table's name, and creates no table without records

type Portal = Schemas['PortalShown']
type Labels = Pick<Portal, 'name' | 'description'>

const addressOf = ({ uri }: Portal) => uri.replace('mem://', '')

export default function Portals() {
  const [, namespace, portal] = route.value.path
  if (namespace && portal) return <PortalPage key={`${namespace}/${portal}`} uri={`mem://${namespace}/${portal}`} />
  return <PortalList />
}

/** What the user may do here: nothing until the server answers. */
function usePermissions(): Permissions {
  const scopes = useResource(() => get('/api/me'), [], {}).value?.scopes ?? []
  return { write: scopes.includes('write_memory'), delete: scopes.includes('delete_memory') }
}

function PortalList() {
  const portals = useResource(() => get('/api/portals'), [])
  const permissions = usePermissions()
  return (
    <>
      <h1>Tables</h1>
      <p class="mut">
        Lists with columns, such as your expenses. Those that belong together are in one portal: open it to read, sort
        and filter its rows, or to draw a chart of them.
      </p>
      <Await resource={portals}>
        {({ portals: found }) =>
          found.length ? (
            <Scroll label="Portals">
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
                  {found.map((portal) => (
                    <tr key={portal.uri}>
                      <td>
                        <a href={href(['portals', ...addressOf(portal).split('/')])}>
                          {portal.name || addressOf(portal)}
                        </a>
                        {portal.name && (
                          <div>
                            <code class="mut">{addressOf(portal)}</code>
                          </div>
                        )}
                        {portal.description && <span class="snippet">{portal.description}</span>}
                      </td>
                      <td>
                        {portal.tables.slice(0, MAX_LISTED_TABLES).join(', ')}
                        {portal.tables.length > MAX_LISTED_TABLES
                          ? ` and ${portal.tables.length - MAX_LISTED_TABLES} more`
                          : ''}
                      </td>
                      <td class="num">{number(portal.rows)}</td>
                      <td class="num">{bytes(portal.bytes)}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </Scroll>
          ) : (
            <p class="empty">
              There is no portal yet: an agent creates one
              {permissions.write ? ', or you do from a file, below' : ''}.
            </p>
          )
        }
      </Await>
      {permissions.write && <NewPortal />}
    </>
  )
}

/** The first write creates a portal: here, the import of a file. */
function NewPortal() {
  const [name, setName] = useState('')
  const [file, setFile] = useState<File | null>(null)
  const [isImporting, setImporting] = useState(false)
  const choose = (chosen: File | null) => {
    setFile(chosen)
    if (chosen) setName((given) => given || tableName(chosen.name))
  }
  const [namespace, portal] = (name.includes('/') ? name : `default/${name}`).split('/') as [string, string]
  if (file && isImporting)
    return (
      <section class="card viewer" aria-label={`New portal ${namespace}/${portal}`}>
        <ImportForm
          bridge={bridge}
          uri={`mem://${namespace}/${portal}`}
          tables={[]}
          file={file}
          onClose={() => setImporting(false)}
          onImported={() => Promise.resolve(navigate(href(['portals', namespace, portal])))}
        />
      </section>
    )
  return (
    <form
      class="card bar"
      aria-label="New portal"
      onSubmit={(event) => {
        event.preventDefault()
        setImporting(true)
      }}
    >
      <label>
        New tables from a file{' '}
        <input
          required
          type="file"
          accept={ACCEPTED}
          onChange={(event) => choose(event.currentTarget.files?.[0] ?? null)}
        />
      </label>
      <label>
        in the portal{' '}
        <input
          required
          value={name}
          placeholder="shop/orders"
          pattern="[^\/]+(\/[^\/]+)?"
          title="A name, or namespace/name"
          onInput={(event) => setName(event.currentTarget.value.trim())}
        />
      </label>
      <button class="primary">Next</button>
    </form>
  )
}

function PortalPage({ uri }: { uri: string }) {
  const [first] = useState(() => ({ current: null as View | null }))
  const view = useResource(async () => (first.current ??= await tool('portal_view', { portalUri: uri })), [uri], {})
  const revision = useRef(-1) // the viewer refreshes when it becomes 1
  const load = async () => {
    const portal = await findPortal(uri)
    revision.current++
    return { portal, revision: revision.current }
  }
  const listed = useResource(load, [uri], { uris: (changed) => changed === uri })
  const permissions = usePermissions()
  const portal = listed.value?.portal
  usePageTitle(portal?.name ?? '')
  if (portal === null && view.value) return <DeletedPortal uri={uri} />
  return (
    <>
      {portal && view.value ? (
        <Heading key={uri} portal={portal} permissions={permissions} />
      ) : (
        <>
          <p>
            <a href="/portals">Tables</a>
          </p>
          {!view.value && <h1>{uri.replace('mem://', '')}</h1>}
        </>
      )}
      <Await resource={view}>
        {(found) => (
          <Viewer
            bridge={bridge}
            initialView={found}
            state={parseViewState(route.value.query)}
            onStateChange={storeViewState}
            revision={listed.value?.revision}
            permissions={permissions}
            stateHref={(state) => href(route.value.path, formatViewState(state))}
          />
        )}
      </Await>
    </>
  )
}

async function findPortal(uri: string): Promise<Portal | null> {
  const { portals } = await get('/api/portals')
  return portals.find((portal) => portal.uri === uri) ?? null
}

function DeletedPortal({ uri }: { uri: string }) {
  return (
    <>
      <p>
        <a href="/portals">Tables</a>
      </p>
      <h1>Portal {uri}</h1>
      <p class="empty" role="alert">
        This portal was deleted.
      </p>
    </>
  )
}

function Heading({ portal, permissions }: { portal: Portal; permissions: Permissions }) {
  const [isEditing, setEditing] = useState(false)
  const opener = useRef<HTMLButtonElement>(null)
  const close = () => {
    setEditing(false)
    requestAnimationFrame(() => opener.current?.focus())
  }
  const address = addressOf(portal)
  async function deletePortal() {
    try {
      const { deleted } = await tool('portal_delete', { portalUri: portal.uri, confirm: true })
      navigate('/portals')
      toast(`The portal ${address} with ${plural(deleted, 'row')} is deleted`)
    } catch (error) {
      showError(error)
    }
  }
  return (
    <>
      <div class="bar">
        <p>
          <a href="/portals">Tables</a>
        </p>
        <span class="space" />
        {permissions.write && !isEditing && (
          <button ref={opener} onClick={() => setEditing(true)}>
            Edit name…
          </button>
        )}
        {permissions.delete && <DeletePermanently kind="portal" name={address} onConfirm={deletePortal} />}
      </div>
      {isEditing && <EditLabels portal={portal} close={close} />}
    </>
  )
}

/** Saves only what the user changed: the rest may be newer than what the page shows. */
function EditLabels({ portal, close }: { portal: Portal; close: () => void }) {
  const labels = useDraft<Labels>(`portal:${portal.uri}`, { name: portal.name, description: portal.description })
  const [isBusy, setBusy] = useState(false)
  const [error, setError] = useState('')
  const { base, draft } = labels
  const leave = () => {
    labels.discard()
    close()
  }
  async function save(event: Event) {
    event.preventDefault()
    if (isBusy) return
    setBusy(true)
    setError('')
    try {
      await writeLabels(portal.uri, base, draft)
      leave()
      toast('Saved')
    } catch (error) {
      setError(
        errorMessage(error)
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
          placeholder={addressOf(portal)}
          onInput={(event) => labels.set({ ...draft, name: event.currentTarget.value })}
        />
      </label>
      <label>
        Description{' '}
        <input
          maxLength={MAX_DESCRIPTION_CHARS}
          value={draft.description}
          onInput={(event) => labels.set({ ...draft, description: event.currentTarget.value })}
        />
      </label>
      {error && (
        <p class="error" role="alert">
          {error}
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

async function writeLabels(uri: string, base: Labels, draft: Labels): Promise<void> {
  const changed = {
    ...(draft.name !== base.name ? { portalName: draft.name.trim() } : {}),
    ...(draft.description !== base.description ? { portalDescription: draft.description.trim() } : {}),
  }
  if (!Object.keys(changed).length) return
  if (!(await findPortal(uri))) throw new Error('This portal was deleted.') // a write would create it again
  await tool('portal_write', { portalUri: uri, table: UNUSED_TABLE, data: [], ...changed })
}

/** Choosing adds a step that Back undoes, typing does not. */
function storeViewState(state: ViewState, isTyping: boolean): void {
  const height = scrollY
  navigate(href(route.value.path, formatViewState(state)), isTyping)
  scrollTo(0, height)
}
