import { useEffect, useRef, useState } from 'preact/hooks'
import type { Bridge, Row, View } from '../shared/bridge'
import { Sure } from '../shared/sure'
import { failed, toast } from '../shared/toast'
import { bytes, number, plural } from '../shared/words'
import { Schema, Statistics } from './about'
import { ACCEPTED, exportFile, formatOf, importFile, isTableName, tableName, type OnConflict } from './files'
import { Grid } from './grid'
import { EVERYTHING, meaning, together, type Wish } from './rows'
import { Sql } from './sql'

export const TABS = { data: 'Data', schema: 'Schema', sql: 'SQL', statistics: 'Statistics' } as const
export type Tab = keyof typeof TABS

/** What of the viewer an address can hold. */
export interface Place {
  table?: string
  tab: Tab
  wish: Wish
  query: string
}

const MOST_KEPT = 1000 // rows that Undo writes again

const EVERYTHING_ALLOWED: Permissions = { write: true, delete: true } // the server refuses what is not

const told = ({ table, tab, wish, query }: Place) =>
  JSON.stringify([table, tab, wish.sort, wish.descending, wish.search, wish.filters, query])

interface Props {
  bridge: Bridge
  first: View
  pages?: boolean
  fullscreen?: boolean // undefined where that is not for us to choose
  place?: Place
  onPlace?: (place: Place, isTyping: boolean) => void
  revision?: number // grows when another client has changed the portal
  may?: Permissions
}

export interface Permissions {
  write: boolean
  delete: boolean
}

export function Viewer({
  bridge,
  first,
  pages = false,
  fullscreen,
  place: start,
  onPlace,
  revision: outside = 0,
  may = EVERYTHING_ALLOWED,
}: Props) {
  const [view, setView] = useState(first)
  const [place, setPlace] = useState<Place>(start ?? { tab: 'data', wish: EVERYTHING, query: '' })
  const [revision, setRevision] = useState(0)
  const [selected, setSelected] = useState(new Map<number, Row>())
  const [chosen, setChosen] = useState<{ file: File; time: number } | null>(null)
  const [doomed, setDoomed] = useState<Row[] | null>(null) // more than were selected: asked first
  const [isDropping, setDropping] = useState(false)
  const search = useRef<HTMLInputElement>(null)
  const chooser = useRef<HTMLInputElement>(null)
  const uri = view.portalUri
  const table =
    view.tables.find((one) => one.name === place.table) ?? view.tables.find((one) => one.rows) ?? view.tables[0]

  const turn = (change: Partial<Place>, isTyping = false) => {
    const next = { ...place, ...change }
    setPlace(next)
    onPlace?.(next, isTyping)
  }
  const setWish = (wish: Wish, isTyping = false) => {
    setSelected(new Map())
    turn({ wish }, isTyping)
  }
  const refresh = async () => {
    setView(await bridge.call<View>('portal_view', { portalUri: uri }))
    setRevision((times) => times + 1)
  }
  useEffect(() => {
    if (outside) refresh().catch(failed)
  }, [outside])
  useEffect(() => {
    if (!start || told(start) === told(place)) return // else Back has led elsewhere
    setSelected(new Map())
    setPlace(start)
  }, [start && told(start)])
  const choose = (file: File | undefined) => file && setChosen({ file, time: Date.now() })
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      const isTyping = (event.composedPath()[0] as HTMLElement).closest?.('input, textarea, [contenteditable]')
      if (event.key === '/' && !isTyping && search.current) {
        event.preventDefault()
        event.stopPropagation()
        search.current.focus()
      }
    }
    document.addEventListener('keydown', onKey)
    return () => document.removeEventListener('keydown', onKey)
  }, [])

  async function askToDelete() {
    if (!may.delete) return
    try {
      const rows = await together(bridge, uri, table!, place.wish, selected, MOST_KEPT + 1)
      if (rows.length > selected.size) setDoomed(rows)
      else await deleteRows(rows)
    } catch (error) {
      failed(error)
    }
  }
  async function deleteRows(rows: Row[]) {
    try {
      let deleted = 0
      for (const where of meaning(table!, [...selected.values()])) {
        deleted += (
          await bridge.call<{ deleted: number }>('portal_delete', { portalUri: uri, table: table!.name, where })
        ).deleted
      }
      setSelected(new Map())
      await refresh()
      const undo = async () => {
        await bridge.call('portal_write', { portalUri: uri, table: table!.name, data: rows })
        await refresh()
        toast(`${plural(rows.length, 'row')} restored`)
      }
      toast(`${plural(deleted, 'row')} deleted`, deleted === rows.length ? { undo } : {})
    } catch (error) {
      failed(error)
    }
  }
  async function dropTable() {
    try {
      const { deleted } = await bridge.call<{ deleted: number }>('portal_delete', {
        portalUri: uri,
        table: table!.name,
        confirm: true,
      })
      setSelected(new Map())
      turn({ table: undefined, wish: EVERYTHING, tab: 'data' }, true)
      await refresh()
      toast(`The table ${table!.name} with ${plural(deleted, 'row')} is deleted`)
    } catch (error) {
      failed(error)
    }
  }
  async function save(chosen: string) {
    const [format = '', all] = chosen.split(' ')
    const isWhole = format === 'db' || Boolean(all)
    try {
      const name = isWhole ? uri.replace('mem://', '').replace('/', '-') : table!.name
      toast(await exportFile(bridge, uri, name, format, isWhole ? {} : { table: table?.name }))
    } catch (error) {
      failed(error)
    }
  }
  const drop = (event: DragEvent) => {
    event.preventDefault()
    setDropping(false)
    if (may.write) choose(event.dataTransfer?.files[0])
  }
  return (
    <div
      class={isDropping ? 'viewer dropping' : 'viewer'}
      onDragOver={(event) => (event.preventDefault(), setDropping(may.write))}
      onDragLeave={() => setDropping(false)}
      onDrop={drop}
    >
      <h1 class="hidden">Portal {uri}</h1>
      {(view.name || view.description) && (
        <p class="labels">
          {view.name && <b>{view.name}</b>} {view.description && <span class="mut">{view.description}</span>}
        </p>
      )}
      <div class="bar">
        <code class="address">{uri}</code>
        <select
          aria-label="Table"
          value={table?.name}
          onChange={(event) => (setSelected(new Map()), turn({ table: event.currentTarget.value, wish: EVERYTHING }))}
        >
          {view.tables.map((one) => (
            <option value={one.name} key={one.name}>
              {one.name} ({one.rows.toLocaleString('en-US')})
            </option>
          ))}
        </select>
        <div role="group" aria-label="Show" class="choice">
          {(Object.keys(TABS) as Tab[]).map((tab) => (
            <button key={tab} aria-pressed={place.tab === tab} onClick={() => turn({ tab })}>
              {TABS[tab]}
            </button>
          ))}
        </div>
        <span class="space" />
        {may.write && (
          <>
            <input
              ref={chooser}
              class="hidden"
              type="file"
              accept={ACCEPTED}
              aria-label="File to import"
              tabIndex={-1}
              onChange={(event) => (choose(event.currentTarget.files?.[0]), (event.currentTarget.value = ''))}
            />
            <button onClick={() => chooser.current?.click()}>Import…</button>
          </>
        )}
        <select
          aria-label="Export"
          value=""
          onChange={(event) => (save(event.currentTarget.value), (event.currentTarget.value = ''))}
        >
          <option value="" disabled>
            Export…
          </option>
          {table &&
            ['csv', 'json', 'parquet'].map((format) => (
              <option key={format} value={format}>
                {table.name} as {format}
              </option>
            ))}
          {view.tables.length > 1 &&
            ['csv', 'json', 'parquet'].map((format) => (
              <option key={format} value={`${format} all`}>
                all tables as {format} (zip)
              </option>
            ))}
          <option value="db">the whole portal as db</option>
        </select>
        {fullscreen !== undefined && bridge.setFullscreen && (
          <button
            aria-label={fullscreen ? 'Leave fullscreen' : 'Fullscreen'}
            onClick={() => void bridge.setFullscreen!(!fullscreen).catch(failed)}
          >
            ⤢
          </button>
        )}
      </div>
      {chosen && (
        <Importing
          key={chosen.time}
          bridge={bridge}
          uri={uri}
          file={chosen.file}
          close={() => setChosen((now) => (now === chosen ? null : now))}
          done={async (name) => {
            setSelected(new Map())
            turn({ table: name, wish: EVERYTHING, tab: 'data' })
            await refresh()
          }}
        />
      )}
      {doomed && (
        <Sure
          title={`Delete ${doomed.length > MOST_KEPT ? `more than ${number(MOST_KEPT)} rows` : plural(doomed.length, 'row')}?`}
          text={`${plural(selected.size, 'row is', 'rows are')} selected. This table has no id, so all rows that are equal go together.${doomed.length > MOST_KEPT ? ' So many do not come back with Undo.' : ''}`}
          no="Keep them"
          yes="Delete them all"
          act={() => deleteRows(doomed)}
          leave={() => setDoomed(null)}
        />
      )}
      {!table ? (
        <p class="empty">This portal has no tables.{may.write && ' Import a file to make one.'}</p>
      ) : place.tab === 'data' ? (
        <>
          <div class="bar">
            <input
              ref={search}
              type="search"
              aria-label="Search all columns"
              placeholder="Search all columns"
              value={place.wish.search}
              onInput={(event) => setWish({ ...place.wish, search: event.currentTarget.value }, true)}
            />
            <span class="keys">
              <kbd>/</kbd>
            </span>
            {may.delete && selected.size > 0 && (
              <button class="danger" onClick={askToDelete}>
                Delete {plural(selected.size, 'row')}
              </button>
            )}
            <span class="space" />
            {may.delete && <DeleteForGood key={table.name} what="table" name={table.name} act={dropTable} />}
          </div>
          <Grid
            key={`${table.name} ${pages}`}
            bridge={bridge}
            portalUri={uri}
            table={table}
            wish={place.wish}
            setWish={setWish}
            revision={revision}
            selected={selected}
            setSelected={setSelected}
            onDelete={askToDelete}
            pages={pages}
          />
        </>
      ) : place.tab === 'schema' ? (
        <Schema bridge={bridge} view={view} table={table} />
      ) : place.tab === 'sql' ? (
        <Sql
          bridge={bridge}
          portalUri={uri}
          tables={view.tables}
          query={place.query}
          setQuery={(query) => turn({ query })}
        />
      ) : (
        <Statistics bridge={bridge} view={view} table={table} />
      )}
    </div>
  )
}

// No forms here: a sandbox without allow-forms submits none.

/** For `ref`: once the element is there. autofocus works once in a page, and never in the frame of a host. */
export const focus = (element: HTMLElement | null) => element?.focus()

/** A whole table or portal cannot come back, so its name has to be typed. */
export function DeleteForGood({
  what,
  name,
  act,
}: {
  what: 'table' | 'portal'
  name: string
  act: () => Promise<void>
}) {
  const [isBusy, setBusy] = useState(false)
  const [isOpen, setOpen] = useState(false)
  const [typed, setTyped] = useState('')
  const opener = useRef<HTMLButtonElement>(null)
  const close = () => {
    setOpen(false)
    setTyped('')
    requestAnimationFrame(() => opener.current?.focus())
  }
  const run = async () => {
    if (isBusy || typed !== name) return
    setBusy(true)
    await act()
    setBusy(false)
  }
  if (!isOpen)
    return (
      <button ref={opener} class="danger" onClick={() => setOpen(true)}>
        Delete {what}…
      </button>
    )
  return (
    <div
      class="bar"
      role="group"
      aria-label={`Delete the ${what}`}
      onKeyDown={(event) => event.key === 'Escape' && close()}
    >
      <label>
        Type <b>{name}</b> to delete {what === 'portal' ? 'it and all its tables' : 'it'} for good{' '}
        <input
          ref={focus}
          value={typed}
          onInput={(event) => setTyped(event.currentTarget.value)}
          onKeyDown={(event) => event.key === 'Enter' && void run()}
        />
      </label>
      <button class="danger" disabled={isBusy || typed !== name} onClick={run}>
        Delete
      </button>
      <button onClick={close}>Keep it</button>
    </div>
  )
}

function Importing({
  bridge,
  uri,
  file,
  close,
  done,
}: {
  bridge: Bridge
  uri: string
  file: File
  close: () => void
  done: (table: string) => Promise<void>
}) {
  const [table, setTable] = useState(tableName(file.name))
  const [progress, setProgress] = useState<number | null>(null)
  const [onConflict, setOnConflict] = useState<OnConflict>()
  const isPortal = formatOf(file.name) === 'db'
  const isNamed = isPortal || isTableName(table)
  async function start() {
    if (!isNamed || progress !== null) return
    setProgress(0)
    try {
      const imported = await importFile(bridge, uri, file, table, setProgress, onConflict)
      await done(table)
      toast(`Imported ${plural(imported, 'row')}${isPortal ? '' : ` into ${table}`}`)
      close()
    } catch (error) {
      failed(error)
      setProgress(null)
    }
  }
  return (
    <div class="bar panel" role="group" aria-label="Import">
      <span>
        {file.name} ({bytes(file.size)})
      </span>
      {!isPortal && (
        <label>
          into the table{' '}
          <input
            aria-invalid={!isNamed}
            value={table}
            onInput={(event) => setTable(event.currentTarget.value)}
            onKeyDown={(event) => event.key === 'Enter' && start()}
          />
        </label>
      )}
      <label>
        if a table exists{' '}
        <select
          value={onConflict ?? (isPortal ? 'refuse' : 'append')}
          onChange={(event) => setOnConflict(event.currentTarget.value as OnConflict)}
        >
          <option value="refuse">refuse</option>
          <option value="append">add the rows</option>
          <option value="replace">replace it</option>
        </select>
      </label>
      {!isNamed && <span class="trouble">letters, digits and _ only, a letter first</span>}
      <button class="primary" disabled={progress !== null || !isNamed} onClick={start}>
        Import
      </button>
      <button onClick={close}>Cancel</button>
      {progress !== null && <progress max={1} value={progress} aria-label="Upload" />}
    </div>
  )
}
