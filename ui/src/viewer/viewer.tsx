import { useEffect, useRef, useState } from 'preact/hooks'
import type { Row, Table, View } from '../shared/api-types'
import type { Bridge } from '../shared/bridge'
import { Confirm } from '../shared/confirm'
import { number, plural } from '../shared/format'
import { showError, toast } from '../shared/toast'
import { Charts } from './charts'
import { DeletePermanently } from './delete-permanently'
import { Grid } from './grid'
import { ImportForm } from './import-form'
import { ALL_ROWS, deleteConditions, findEqualRows, type RowQuery } from './rows'
import { Schema, Statistics } from './statistics'
import { Sql } from './sql'
import { Toolbar } from './toolbar'
import { INITIAL_STATE, serialize, type Permissions, type ViewState } from './view-state'

const MAX_UNDO_ROWS = 1000
const ALL_PERMISSIONS: Permissions = { write: true, delete: true } // the server refuses what is not allowed

interface Props {
  bridge: Bridge
  initialView: View
  isPaged?: boolean
  isFullscreen?: boolean // undefined where the host offers no choice
  state?: ViewState
  onStateChange?: (state: ViewState, isTyping: boolean) => void
  revision?: number // grows when another client changed the portal
  permissions?: Permissions
  stateHref?: (state: ViewState) => string // where a state has an address
}

/** The state of the viewer, which the address may change as well. */
function useViewState({ state: given, onStateChange }: Props, onReplaced: () => void) {
  const [state, setState] = useState<ViewState>(given ?? INITIAL_STATE)
  const update = (change: Partial<ViewState>, isTyping = false) => {
    const next = { ...state, ...change }
    setState(next)
    onStateChange?.(next, isTyping)
  }
  useEffect(() => {
    if (!given || serialize(given) === serialize(state)) return // else the user went back
    onReplaced()
    setState(given)
  }, [given && serialize(given)])
  return [state, update] as const
}

function useFocusKey(input: { current: HTMLInputElement | null }): void {
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      const [target] = event.composedPath()
      const isTyping = target instanceof Element && target.closest('input, textarea, [contenteditable]')
      if (event.key !== '/' || isTyping || !input.current) return
      event.preventDefault()
      event.stopPropagation()
      input.current.focus()
    }
    document.addEventListener('keydown', onKey)
    return () => document.removeEventListener('keydown', onKey)
  }, [])
}

export function Viewer(props: Props) {
  const { bridge, initialView, isPaged = false, isFullscreen, revision: externalRevision = 0 } = props
  const { permissions = ALL_PERMISSIONS } = props
  const [view, setView] = useState(initialView)
  const [revision, setRevision] = useState(0)
  const [selected, setSelected] = useState(new Map<number, Row>())
  const [imported, setImported] = useState<{ file: File; time: number } | null>(null)
  const [isDropping, setDropping] = useState(false)
  const clearSelection = () => setSelected(new Map())
  const [state, update] = useViewState(props, clearSelection)
  const uri = view.portalUri
  const table =
    view.tables.find(({ name }) => name === state.table) ?? view.tables.find(({ rows }) => rows) ?? view.tables[0]
  const refresh = async () => {
    setView(await bridge.call('portal_view', { portalUri: uri }))
    setRevision((count) => count + 1)
  }
  useEffect(() => {
    if (externalRevision) refresh().catch(showError)
  }, [externalRevision])
  const showTable = (name: string | undefined, isTyping = false) => {
    clearSelection()
    update({ table: name, rows: ALL_ROWS, tab: 'data' }, isTyping)
  }
  const importFile = (file: File | undefined) => file && setImported({ file, time: Date.now() })
  const content = () => {
    if (!table)
      return <p class="empty">This portal has no tables.{permissions.write && ' Import a file to create one.'}</p>
    if (state.tab === 'charts')
      return (
        <Charts
          bridge={bridge}
          uri={uri}
          table={table}
          choice={state.chart}
          setChoice={(chart) => update({ chart })}
          revision={revision}
          onOpenQuery={(sql) => update({ tab: 'sql', sql, chart: {} })}
        />
      )
    if (state.tab === 'schema') return <Schema bridge={bridge} view={view} table={table} />
    if (state.tab === 'statistics') return <Statistics bridge={bridge} view={view} table={table} />
    if (state.tab === 'sql') {
      return (
        <Sql
          bridge={bridge}
          portalUri={uri}
          tables={view.tables}
          query={state.sql}
          setQuery={(sql) => update(sql === state.sql ? {} : { sql, chart: {} })}
          chart={state.chart}
          setChart={(chart) => update({ chart })}
          href={props.stateHref && ((sql) => props.stateHref!({ ...INITIAL_STATE, tab: 'sql', sql }))}
        />
      )
    }
    return (
      <TableRows
        key={`${table.name} ${String(isPaged)}`}
        bridge={bridge}
        uri={uri}
        table={table}
        query={state.rows}
        setQuery={(rows, isTyping) => {
          clearSelection()
          update({ rows }, isTyping)
        }}
        selected={selected}
        setSelected={setSelected}
        revision={revision}
        refresh={refresh}
        onTableDeleted={() => showTable(undefined, true)}
        permissions={permissions}
        isPaged={isPaged}
      />
    )
  }
  return (
    <div
      class={isDropping ? 'viewer dropping' : 'viewer'}
      onDragOver={(event) => {
        event.preventDefault()
        setDropping(permissions.write)
      }}
      onDragLeave={() => setDropping(false)}
      onDrop={(event) => {
        event.preventDefault()
        setDropping(false)
        if (permissions.write) importFile(event.dataTransfer?.files[0])
      }}
    >
      <div class="labels">
        <h1>{view.name || uri.replace('mem://', '')}</h1>{' '}
        {view.description && <span class="mut">{view.description}</span>}
      </div>
      <Toolbar
        bridge={bridge}
        view={view}
        table={table}
        tab={state.tab}
        canWrite={permissions.write}
        isFullscreen={isFullscreen}
        onTable={(name) => {
          clearSelection()
          update({ table: name, rows: ALL_ROWS })
        }}
        onTab={(tab) => update({ tab, chart: [tab, state.tab].includes('charts') ? {} : state.chart })}
        onFile={importFile}
      />
      {imported && (
        <ImportForm
          key={imported.time}
          bridge={bridge}
          uri={uri}
          tables={view.tables}
          file={imported.file}
          onClose={() => setImported((current) => (current === imported ? null : current))}
          onImported={async (name) => {
            showTable(name)
            await refresh()
          }}
        />
      )}
      {content()}
    </div>
  )
}

interface RowsProps {
  bridge: Bridge
  uri: string
  table: Table
  query: RowQuery
  setQuery: (query: RowQuery, isTyping?: boolean) => void
  selected: Map<number, Row>
  setSelected: (rows: Map<number, Row>) => void
  revision: number
  refresh: () => Promise<void>
  onTableDeleted: () => void
  permissions: Permissions
  isPaged: boolean
}

/** Deletes the selected rows. In a table without an id, equal rows are deleted with them, after a question. */
function useRowDeletion({ bridge, uri, table, query, selected, setSelected, refresh, permissions }: RowsProps) {
  const [equalRows, setEqualRows] = useState<Row[] | null>(null)
  async function deleteRows(rows: Row[]) {
    try {
      let deleted = 0
      for (const where of deleteConditions(table, [...selected.values()])) {
        deleted += (await bridge.call('portal_delete', { portalUri: uri, table: table.name, where })).deleted
      }
      setSelected(new Map())
      await refresh()
      const undo = async () => {
        await bridge.call('portal_write', { portalUri: uri, table: table.name, data: rows })
        await refresh()
        toast(`${plural(rows.length, 'row')} restored`)
      }
      toast(`${plural(deleted, 'row')} deleted`, deleted === rows.length ? { undo } : {})
    } catch (error) {
      showError(error)
    }
  }
  async function deleteSelected() {
    if (!permissions.delete) return
    try {
      const rows = await findEqualRows(bridge, uri, table, query, selected, MAX_UNDO_ROWS + 1)
      if (rows.length > selected.size) setEqualRows(rows)
      else await deleteRows(rows)
    } catch (error) {
      showError(error)
    }
  }
  return { equalRows, setEqualRows, deleteRows, deleteSelected }
}

function TableRows(props: RowsProps) {
  const { bridge, uri, table, query, setQuery, selected, setSelected, revision, refresh, permissions, isPaged } = props
  const { equalRows, setEqualRows, deleteRows, deleteSelected } = useRowDeletion(props)
  const search = useRef<HTMLInputElement>(null)
  useFocusKey(search)
  async function deleteTable() {
    try {
      const { deleted } = await bridge.call('portal_delete', { portalUri: uri, table: table.name, confirm: true })
      props.onTableDeleted()
      await refresh()
      toast(`The table ${table.name} with ${plural(deleted, 'row')} is deleted`)
    } catch (error) {
      showError(error)
    }
  }
  return (
    <>
      {equalRows && (
        <ConfirmEqualRows
          selected={selected.size}
          equal={equalRows.length}
          onConfirm={() => void deleteRows(equalRows)}
          onClose={() => setEqualRows(null)}
        />
      )}
      <div class="bar">
        <input
          ref={search}
          type="search"
          aria-label="Search all columns"
          placeholder="Search all columns"
          value={query.search}
          onInput={(event) => setQuery({ ...query, search: event.currentTarget.value }, true)}
        />
        <span class="keys">
          <kbd>/</kbd>
        </span>
        {permissions.delete && selected.size > 0 && (
          <button class="danger" onClick={deleteSelected}>
            Delete {plural(selected.size, 'row')}
          </button>
        )}
        <span class="space" />
        {permissions.delete && <DeletePermanently kind="table" name={table.name} onConfirm={deleteTable} />}
      </div>
      <Grid
        bridge={bridge}
        portalUri={uri}
        table={table}
        query={query}
        setQuery={setQuery}
        revision={revision}
        selected={selected}
        setSelected={setSelected}
        onDelete={() => void deleteSelected()}
        isPaged={isPaged}
        maxSelected={MAX_UNDO_ROWS}
      />
    </>
  )
}

interface ConfirmProps {
  selected: number
  equal: number
  onConfirm: () => void
  onClose: () => void
}

function ConfirmEqualRows({ selected, equal, onConfirm, onClose }: ConfirmProps) {
  const isMany = equal > MAX_UNDO_ROWS
  const rows = isMany ? `more than ${number(MAX_UNDO_ROWS)} rows` : plural(equal, 'row')
  const reasons = ['This table has no id, so all rows that are equal are deleted together.']
  if (isMany) reasons.push('Undo cannot restore so many.')
  return (
    <Confirm
      title={`Delete ${rows}?`}
      text={[`${plural(selected, 'row is', 'rows are')} selected.`, ...reasons].join(' ')}
      cancelLabel="Keep them"
      confirmLabel="Delete them all"
      onConfirm={onConfirm}
      onClose={onClose}
    />
  )
}
