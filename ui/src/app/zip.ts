// A folder as one file: a zip without compression, whose parts stay on the disk until they are sent.

export interface ZipEntry {
  path: string // with '/' between its parts
  file: Blob
  modifiedMs: number // since 1970
}

const LOCAL_HEADER = 0x04034b50
const CENTRAL_HEADER = 0x02014b50
const END = 0x06054b50
const VERSION = 20
const UTF8_NAMES = 0x0800
export const MAX_ENTRIES = 0xffff
const MAX_BYTES = 0xffffffff
const CHUNK_BYTES = 4 * 1024 * 1024

const CRC_TABLE = Uint32Array.from({ length: 256 }, (_, index) => {
  let value = index
  for (let bit = 0; bit < 8; bit++) value = value & 1 ? 0xedb88320 ^ (value >>> 1) : value >>> 1
  return value >>> 0
})

export async function crc32(file: Blob): Promise<number> {
  let crc = 0xffffffff
  for (let start = 0; start < file.size; start += CHUNK_BYTES) {
    const chunk = new Uint8Array(await file.slice(start, start + CHUNK_BYTES).arrayBuffer())
    for (const byte of chunk) crc = CRC_TABLE[(crc ^ byte) & 0xff]! ^ (crc >>> 8)
  }
  return (crc ^ 0xffffffff) >>> 0
}

/** Date and time as MS-DOS has them, in UTC, with steps of two seconds. */
function dosTime(ms: number): [number, number] {
  const time = new Date(Math.max(ms, Date.UTC(1980, 0, 1)))
  const date = ((time.getUTCFullYear() - 1980) << 9) | ((time.getUTCMonth() + 1) << 5) | time.getUTCDate()
  return [(time.getUTCHours() << 11) | (time.getUTCMinutes() << 5) | (time.getUTCSeconds() >> 1), date]
}

/** Numbers of 2 or 4 bytes, the lowest byte first. */
function packed(...fields: [value: number, size: 2 | 4][]): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(fields.reduce((length, [, size]) => length + size, 0))
  const view = new DataView(bytes.buffer)
  let offset = 0
  for (const [value, size] of fields) {
    if (size === 2) view.setUint16(offset, value, true)
    else view.setUint32(offset, value, true)
    offset += size
  }
  return bytes
}

export async function zip(entries: ZipEntry[], onProgress: (done: number) => void): Promise<Blob> {
  const total = entries.reduce((bytes, { file }) => bytes + file.size, 0)
  if (entries.length > MAX_ENTRIES || total > MAX_BYTES) {
    throw new Error('This folder has too many files, or is over 4 GB. Choose a part of it.')
  }
  const parts: BlobPart[] = []
  const directory: BlobPart[] = []
  let offset = 0
  let directoryBytes = 0
  for (const [index, { path, file, modifiedMs }] of entries.entries()) {
    const name = new TextEncoder().encode(path)
    const [time, date] = dosTime(modifiedMs)
    const described = packed(
      [VERSION, 2],
      [UTF8_NAMES, 2],
      [0, 2],
      [time, 2],
      [date, 2], // prettier-ignore
      [await crc32(file), 4],
      [file.size, 4],
      [file.size, 4],
      [name.length, 2],
      [0, 2], // prettier-ignore
    )
    parts.push(packed([LOCAL_HEADER, 4]), described, name, file)
    const place = packed([0, 2], [0, 2], [0, 2], [0, 4], [offset, 4])
    directory.push(packed([CENTRAL_HEADER, 4], [VERSION, 2]), described, place, name)
    offset += 4 + described.length + name.length + file.size
    directoryBytes += 6 + described.length + place.length + name.length
    onProgress((index + 1) / entries.length)
  }
  const count = entries.length
  const end = packed([END, 4], [0, 2], [0, 2], [count, 2], [count, 2], [directoryBytes, 4], [offset, 4], [0, 2])
  return new Blob([...parts, ...directory, end], { type: 'application/zip' })
}
