import { useEffect, useRef, useState } from 'preact/hooks'
import type { Table, ToolResult } from '../shared/api-types'
import type { Bridge } from '../shared/bridge'
import { bytes, errorMessage, plural } from '../shared/format'
import { showError, toast } from '../shared/toast'
import { chooseColumns, type ColumnEdits } from './column-choices'
import { formatOf, importUpload, isTableName, tableName, uploadFile, type OnConflict, type Upload } from './files'
import { ImportPreview } from './import-preview'

interface Props {
  bridge: Bridge
  uri: string
  tables: Table[] // that the portal has
  file: File
  onImported: (table: string) => Promise<void>
  onClose: () => void
}

type Preview = ToolResult<'portal_preview'>

/** The file is uploaded once; the preview and the import wait for it. */
function useUpload(bridge: Bridge, file: File) {
  const [progress, setProgress] = useState<number | null>(0)
  const upload = useRef<Promise<Upload>>(undefined)
  const start = () => (upload.current ??= uploadFile(bridge, file, setProgress).finally(() => setProgress(null)))
  const reset = () => {
    upload.current = undefined // an import deletes the file, also a refused one may be gone
  }
  return { progress, start, reset }
}

/** The first rows of the file and its columns as the table would get them, or why there are none. */
function usePreview({ bridge, uri, file }: Props, table: string, start: () => Promise<Upload>) {
  const [preview, setPreview] = useState<Preview | null>(null)
  const [problem, setProblem] = useState('')
  const [previewed, setPreviewed] = useState(table)
  useEffect(() => {
    let isCurrent = true
    async function load() {
      const { source, format } = await start()
      if (format === 'db') return
      const found = await bridge.call('portal_preview', { portalUri: uri, source, format, table: previewed })
      if (!isCurrent) return
      setPreview(found)
      setProblem('')
    }
    load().catch((error: unknown) => isCurrent && setProblem(errorMessage(error)))
    return () => {
      isCurrent = false
    }
  }, [file, previewed])
  return { preview, problem, refresh: setPreviewed }
}

/** Not a form: a sandbox may refuse to submit one. */
export function ImportForm(props: Props) {
  const { bridge, uri, tables, file, onImported, onClose } = props
  const [table, setTable] = useState(tableName(file.name))
  const [isImporting, setImporting] = useState(false)
  const [onConflict, setOnConflict] = useState<OnConflict>()
  const [edits, setEdits] = useState<ColumnEdits>({})
  const upload = useUpload(bridge, file)
  const { preview, problem, refresh } = usePreview(props, table, upload.start)
  const isPortal = formatOf(file.name) === 'db'
  const isNamed = isPortal || isTableName(table)
  async function start() {
    if (!isNamed || isImporting) return
    setImporting(true)
    try {
      const choices = preview ? chooseColumns(preview.columns, edits) : {}
      const imported = await importUpload(bridge, uri, await upload.start(), table, onConflict, choices)
      await onImported(table)
      toast(`Imported ${plural(imported, 'row')}${isPortal ? '' : ` into ${table}`}`)
      onClose()
    } catch (error) {
      showError(error)
      upload.reset()
      setImporting(false)
    }
  }
  return (
    <div class="panel" role="group" aria-label="Import">
      <div class="bar">
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
              onChange={(event) => isTableName(event.currentTarget.value) && refresh(event.currentTarget.value)}
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
        <button class="primary" disabled={isImporting || !isNamed} onClick={start}>
          Import
        </button>
        <button onClick={onClose}>Cancel</button>
        {upload.progress !== null && <progress max={1} value={upload.progress} aria-label="Upload" />}
      </div>
      {problem && (
        <p class="error" role="alert">
          {problem}
        </p>
      )}
      {preview && (
        <ImportPreview
          preview={preview}
          known={onConflict === 'replace' ? undefined : tables.find(({ name }) => name === table)}
          edits={edits}
          setEdits={setEdits}
        />
      )}
    </div>
  )
}
