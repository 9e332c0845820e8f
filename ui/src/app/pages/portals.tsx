import { useState } from 'preact/hooks'
import type { View } from '../../shared/bridge'
import { toast } from '../../shared/toast'
import { bytes, message, number, plural } from '../../shared/words'
import { ACCEPTED, importFile, tableName } from '../../viewer/files'
import { EVERYTHING } from '../../viewer/rows'
import { TABS, Viewer, type Place, type Tab } from '../../viewer/viewer'
import '../../viewer/viewer.css'
import { get, tool } from '../api'
import { bridge } from '../bridge'
import { useChanges } from '../live'
import { Awaited, useLoaded } from '../loading'
import { go, to, where } from '../router'

interface Portal {
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

function All() {
  const portals = useLoaded(() => get<{ portals: Portal[] }>('/api/portals'), [])
  return (
    <>
      <h1>Portals</h1>
      <Awaited of={portals}>
        {({ portals: found }) =>
          found.length ? (
            <div class="scroll" tabIndex={0} role="region" aria-label="Portals">
              <table>
                <thead><tr><th scope="col">Portal</th><th scope="col">Tables</th><th scope="col" class="num">Rows</th><th scope="col" class="num">Size</th></tr></thead>
                <tbody>
                  {found.map((one) => (
                    <tr key={one.uri}>
                      <td><a href={to(['portals', ...one.uri.replace('mem://', '').split('/')])}>{one.uri}</a></td>
                      <td>{one.tables.slice(0, 8).join(', ')}{one.tables.length > 8 ? ` and ${plural(one.tables.length - 8, 'more', 'more')}` : ''}</td>
                      <td class="num">{number(one.rows)}</td>
                      <td class="num">{bytes(one.bytes)}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          ) : (
            <p class="empty">There is no portal yet. An agent makes one when it is asked to keep a table; or make one of a file, below.</p>
          )
        }
      </Awaited>
      <NewPortal />
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
      <label>New portal <input required value={name} placeholder="shop/orders" pattern="[^\/]+(\/[^\/]+)?" title="A name, or namespace/name" onInput={(event) => setName(event.currentTarget.value.trim())} /></label>
      <label>of a file <input required type="file" accept={ACCEPTED} onChange={(event) => setFile(event.currentTarget.files?.[0] ?? null)} /></label>
      <button class="primary" disabled={isBusy}>Import</button>
      {trouble && <p class="trouble" role="alert">{trouble}</p>}
    </form>
  )
}

function OnePortal({ uri }: { uri: string }) {
  const [first] = useState(() => ({ current: null as View | null }))
  const view = useLoaded(async () => (first.current ??= await tool<View>('portal_view', { portalUri: uri })), [uri], {})
  const [changes, setChanges] = useState(0)
  useChanges(() => setChanges((times) => times + 1), { uris: (changed) => changed === uri })
  return (
    <>
      <p><a href="/portals">Portals</a></p>
      <Awaited of={view}>{(found) => <Viewer bridge={bridge} first={found} place={place()} onPlace={remember} revision={changes} />}</Awaited>
    </>
  )
}

function place(): Place {
  const { table, tab, sort, search = '', query = '', ...rest } = where.value.query
  const filters = Object.fromEntries(Object.entries(rest).filter(([name]) => name.startsWith('is.')).map(([name, value]) => [name.slice(3), value]))
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
  go(to(where.value.path, { table, tab: tab === 'data' ? undefined : tab, sort, search: wish.search, query, ...filters }), isTyping)
  scrollTo(0, height)
}
