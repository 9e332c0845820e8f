import { useRef } from 'preact/hooks'
import type { Table, View } from '../shared/api-types'
import type { Bridge } from '../shared/bridge'
import { number } from '../shared/format'
import { showError, toast } from '../shared/toast'
import { ACCEPTED, exportFile, type ExportFormat } from './files'
import { TABS, type Tab } from './view-state'

const FORMATS = ['csv', 'json', 'parquet'] as const

interface Props {
  bridge: Bridge
  view: View
  table: Table | undefined
  tab: Tab
  canWrite: boolean
  isFullscreen?: boolean // undefined where the host offers no choice
  onTable: (name: string) => void
  onTab: (tab: Tab) => void
  onFile: (file: File | undefined) => void
}

export function Toolbar({ bridge, view, table, tab, canWrite, isFullscreen, onTable, onTab, onFile }: Props) {
  return (
    <div class="bar toolbar">
      {view.name && <code class="address">{view.portalUri}</code>}
      <select aria-label="Table" value={table?.name} onChange={(event) => onTable(event.currentTarget.value)}>
        {view.tables.map(({ name, rows }) => (
          <option value={name} key={name}>
            {name} ({number(rows)})
          </option>
        ))}
      </select>
      <div role="group" aria-label="Show" class="choice">
        {(Object.keys(TABS) as Tab[]).map((name) => (
          <button key={name} aria-pressed={tab === name} onClick={() => onTab(name)}>
            {TABS[name]}
          </button>
        ))}
      </div>
      <span class="space" />
      {canWrite && <ImportButton onFile={onFile} />}
      <ExportSelect bridge={bridge} view={view} table={table} />
      {isFullscreen !== undefined && bridge.setFullscreen && (
        <button
          aria-label={isFullscreen ? 'Leave fullscreen' : 'Fullscreen'}
          onClick={() => bridge.setFullscreen!(!isFullscreen).catch(showError)}
        >
          ⤢
        </button>
      )}
    </div>
  )
}

function ImportButton({ onFile }: { onFile: (file: File | undefined) => void }) {
  const input = useRef<HTMLInputElement>(null)
  return (
    <>
      <input
        ref={input}
        class="hidden"
        type="file"
        accept={ACCEPTED}
        aria-label="File to import"
        tabIndex={-1}
        onChange={(event) => {
          onFile(event.currentTarget.files?.[0])
          event.currentTarget.value = ''
        }}
      />
      <button onClick={() => input.current?.click()}>Import…</button>
    </>
  )
}

function ExportSelect({ bridge, view, table }: { bridge: Bridge; view: View; table: Table | undefined }) {
  const uri = view.portalUri
  async function save(choice: string) {
    const [format, scope] = choice.split(' ') as [ExportFormat, string | undefined]
    const isWhole = format === 'db' || scope === 'all'
    try {
      const name = isWhole ? uri.replace('mem://', '').replace('/', '-') : table!.name
      toast(await exportFile(bridge, uri, name, format, isWhole ? {} : { table: table?.name }))
    } catch (error) {
      showError(error)
    }
  }
  return (
    <select
      aria-label="Export"
      value=""
      onChange={(event) => {
        void save(event.currentTarget.value)
        event.currentTarget.value = ''
      }}
    >
      <option value="" disabled>
        Export…
      </option>
      {table &&
        FORMATS.map((format) => (
          <option key={format} value={format}>
            {table.name} as {format}
          </option>
        ))}
      {view.tables.length > 1 &&
        FORMATS.map((format) => (
          <option key={format} value={`${format} all`}>
            all tables as {format} (zip)
          </option>
        ))}
      <option value="db">the whole portal as db</option>
    </select>
  )
}
