// A folder as one file: a zip without compression.
import { downloadZip } from 'client-zip'

export interface ZipEntry {
  path: string // with '/' between its parts
  file: Blob
  modifiedMs: number // since 1970
}

const MAX_ENTRIES = 0xffff
const MAX_BYTES = 0xffffffff

/** The time whose local date and hour are those of `ms` in UTC: a zip has no time zone, and the server reads UTC. */
function localTime(ms: number): Date {
  const time = new Date(Math.max(ms, Date.UTC(1980, 0, 1))) // the first time that a zip can hold
  return new Date(time.getTime() + time.getTimezoneOffset() * 60_000)
}

export async function zip(entries: ZipEntry[], onProgress: (done: number) => void): Promise<Blob> {
  const total = entries.reduce((bytes, { file }) => bytes + file.size, 0)
  if (entries.length > MAX_ENTRIES || total > MAX_BYTES) {
    throw new Error('This folder has too many files, or is over 4 GB. Choose a part of it.')
  }
  function* files() {
    for (const [index, { path, file, modifiedMs }] of entries.entries()) {
      yield { name: path, input: file, lastModified: localTime(modifiedMs) }
      onProgress((index + 1) / entries.length)
    }
  }
  return downloadZip(files()).blob()
}
