// Files are transferred in pieces by tool calls: a page in a sandbox has no other access to the server.
import type { ToolArguments } from '../shared/api-types'
import { fromBase64, randomName, toBase64 } from '../shared/base64'
import type { Bridge } from '../shared/bridge'

const PIECE_BYTES = 512 * 1024 // a request may have 4 MiB
type ImportFormat = NonNullable<ToolArguments<'portal_import'>['format']>
export type ExportFormat = NonNullable<ToolArguments<'portal_export'>['format']>
/** What happens to existing tables; undefined leaves it to the server. */
export type OnConflict = ToolArguments<'portal_import'>['onConflict']

const FORMATS: Record<string, ImportFormat> = {
  json: 'json',
  jsonl: 'json',
  ndjson: 'json',
  csv: 'csv',
  parquet: 'parquet',
  db: 'db',
}
const MEDIA_TYPES: Record<string, string> = {
  json: 'application/json',
  csv: 'text/csv',
  parquet: 'application/vnd.apache.parquet',
  db: 'application/x-tar',
  zip: 'application/zip',
}

export const ACCEPTED = Object.keys(FORMATS)
  .map((extension) => '.' + extension)
  .join(',')

const extension = (name: string) => name.split('.').pop()?.toLowerCase() ?? ''

/** The default name of the table for a file. Names that start with _ are reserved by the server. */
export const tableName = (name: string) =>
  name
    .replace(/\.[^.]*$/, '')
    .replace(/\W+/g, '_')
    .replace(/^_+/, '')
    .replace(/^(?=\d)/, 'table_')
    .slice(0, 64) || 'imported'

export const isTableName = (name: string) => /^[A-Za-z][A-Za-z0-9_]{0,63}$/.test(name)

export const formatOf = (name: string) => FORMATS[extension(name)]

export interface Upload {
  source: string
  format: ImportFormat
}

/** What the user chose for columns of a file. */
export type ColumnChoices = Pick<ToolArguments<'portal_import'>, 'mapping' | 'types'>

export async function uploadFile(bridge: Bridge, file: File, onProgress: (done: number) => void): Promise<Upload> {
  const format = formatOf(file.name)
  if (!format) throw new Error(`${file.name}: choose a file that ends in ${ACCEPTED.replaceAll(',', ', ')}.`)
  const name = `${randomName()}.${extension(file.name)}`
  let source = ''
  for (let offset = 0; offset === 0 || offset < file.size; offset += PIECE_BYTES) {
    const piece = new Uint8Array(await file.slice(offset, offset + PIECE_BYTES).arrayBuffer())
    source = (await bridge.call('portal_upload', { name, offset, data: toBase64(piece) })).source
    onProgress(Math.min(1, (offset + PIECE_BYTES) / file.size))
  }
  return { source, format }
}

/** Returns the number of rows. */
export async function importUpload(
  bridge: Bridge,
  portalUri: string,
  { source, format }: Upload,
  table: string,
  onConflict?: OnConflict,
  choices: ColumnChoices = {},
): Promise<number> {
  const request = {
    portalUri,
    source,
    format,
    ...(format === 'db' ? {} : { table, ...choices }),
    ...(onConflict && { onConflict }),
  }
  return (await bridge.call('portal_import', request)).imported
}

/** Export a table, a query, or, with neither, the whole portal as db or as a zip of files. */
export async function exportFile(
  bridge: Bridge,
  portalUri: string,
  name: string,
  format: ExportFormat,
  selection: { table?: string; query?: string },
): Promise<string> {
  const extension = format === 'db' || selection.table || selection.query ? format : 'zip'
  const destination = `downloads/${randomName()}.${extension}`
  await bridge.call('portal_export', { portalUri, destination, format, ...(format === 'db' ? {} : selection) })
  const pieces: Uint8Array<ArrayBuffer>[] = []
  for (let offset = 0, done = false; !done;) {
    const piece = await bridge.call('portal_download', { destination, offset })
    const bytes = fromBase64(piece.data)
    pieces.push(bytes)
    offset += bytes.length
    done = piece.done || !bytes.length
  }
  const whole = new Uint8Array(await new Blob(pieces).arrayBuffer())
  return bridge.save(`${name}.${extension}`, MEDIA_TYPES[extension]!, whole)
}
