// Files pass through tool calls in pieces: a page in a sandbox has no other way in or out.
import type { Bridge } from '../shared/bridge'

const PIECE = 512 * 1024 // bytes; a request may have 4 MiB
const FORMATS: Record<string, string> = {
  json: 'json',
  jsonl: 'json',
  ndjson: 'json',
  csv: 'csv',
  parquet: 'parquet',
  db: 'db',
}
const TYPES: Record<string, string> = {
  json: 'application/json',
  csv: 'text/csv',
  parquet: 'application/vnd.apache.parquet',
  db: 'application/x-tar',
  zip: 'application/zip',
}

export const ACCEPTED = Object.keys(FORMATS)
  .map((ending) => '.' + ending)
  .join(',')

const ending = (name: string) => name.split('.').pop()?.toLowerCase() ?? ''

/** The table a file goes to, if nobody says otherwise. Names that start with _ are the server's own. */
export const tableName = (name: string) =>
  name
    .replace(/\.[^.]*$/, '')
    .replace(/\W+/g, '_')
    .replace(/^_+/, '')
    .replace(/^(?=\d)/, 'table_')
    .slice(0, 64) || 'imported'

export const isTableName = (name: string) => /^[A-Za-z][A-Za-z0-9_]{0,63}$/.test(name)

export const formatOf = (name: string) => FORMATS[ending(name)]

/** What becomes of tables that are there; undefined leaves it to the server. */
export type OnConflict = 'refuse' | 'append' | 'replace' | undefined

export async function importFile(
  bridge: Bridge,
  portalUri: string,
  file: File,
  table: string,
  tell: (done: number) => void,
  onConflict?: OnConflict,
): Promise<number> {
  const format = formatOf(file.name)
  if (!format) throw new Error(`${file.name}: choose a file that ends in ${ACCEPTED.replaceAll(',', ', ')}.`)
  const name = `${token()}.${ending(file.name)}`
  let source = ''
  for (let offset = 0; offset === 0 || offset < file.size; offset += PIECE) {
    const piece = new Uint8Array(await file.slice(offset, offset + PIECE).arrayBuffer())
    source = (await bridge.call<{ source: string }>('portal_upload', { name, offset, data: encoded(piece) })).source
    tell(Math.min(1, (offset + PIECE) / file.size))
  }
  const asked = { portalUri, source, format, ...(format === 'db' ? {} : { table }), ...(onConflict && { onConflict }) }
  return (await bridge.call<{ imported: number }>('portal_import', asked)).imported
}

/** `what` is a table or a query; neither means the whole portal, as db or as a zip of files. */
export async function exportFile(
  bridge: Bridge,
  portalUri: string,
  name: string,
  format: string,
  what: { table?: string; query?: string },
): Promise<string> {
  const ending = format === 'db' || what.table || what.query ? format : 'zip'
  const destination = `downloads/${token()}.${ending}`
  await bridge.call('portal_export', { portalUri, destination, format, ...(format === 'db' ? {} : what) })
  const pieces: Uint8Array<ArrayBuffer>[] = []
  for (let offset = 0, done = false; !done;) {
    const piece = await bridge.call<{ data: string; done: boolean }>('portal_download', { destination, offset })
    const bytes = decoded(piece.data)
    pieces.push(bytes)
    offset += bytes.length
    done = piece.done || !bytes.length
  }
  const whole = new Uint8Array(await new Blob(pieces).arrayBuffer())
  return bridge.save(`${name}.${ending}`, TYPES[ending]!, whole)
}

export function encoded(bytes: Uint8Array): string {
  let text = ''
  for (let at = 0; at < bytes.length; at += 0x8000) text += String.fromCharCode(...bytes.subarray(at, at + 0x8000))
  return btoa(text)
}

function decoded(text: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0))
}

const token = () => Array.from(crypto.getRandomValues(new Uint32Array(3)), (part) => part.toString(36)).join('')
