import { useState } from 'preact/hooks'
import type { Bridge } from '../shared/bridge'
import { bytes, plural } from '../shared/format'
import { showError, toast } from '../shared/toast'
import { formatOf, importFile, isTableName, tableName, type OnConflict } from './files'

interface Props {
  bridge: Bridge
  uri: string
  file: File
  onImported: (table: string) => Promise<void>
  onClose: () => void
}

/** Not a form: a sandbox may refuse to submit one. */
export function ImportForm({ bridge, uri, file, onImported, onClose }: Props) {
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
      await onImported(table)
      toast(`Imported ${plural(imported, 'row')}${isPortal ? '' : ` into ${table}`}`)
      onClose()
    } catch (error) {
      showError(error)
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
            onKeyDown={(event) => event.key === 'Enter' && void start()}
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
      {!isNamed && <span class="error">letters, digits and _ only, a letter first</span>}
      <button class="primary" disabled={progress !== null || !isNamed} onClick={start}>
        Import
      </button>
      <button onClick={onClose}>Cancel</button>
      {progress !== null && <progress max={1} value={progress} aria-label="Upload" />}
    </div>
  )
}
