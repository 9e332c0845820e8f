// The files that a person drops or chooses, as the one file that is uploaded.
import { zip, type ZipEntry } from './zip'

export interface Chosen {
  name: string // for people
  file: Blob
  extension: string
}

const ALONE = /\.(zip|jsonl|json|db|sqlite|sqlite3|txt|gz)$/i // files that are an export by themselves

const isHidden = (path: string) => path.split('/').some((part) => part.startsWith('.'))

/** One export as it is; anything else, such as a folder, as a zip. Hidden files are left out. */
export async function chosenFile(entries: ZipEntry[], onProgress: (done: number) => void): Promise<Chosen> {
  const shown = entries.filter(({ path }) => !isHidden(path))
  const [first] = shown
  if (!first) throw new Error('There are no files in it.')
  if (shown.length === 1 && ALONE.test(first.path)) {
    const name = first.path.split('/').pop()!
    return { name, file: first.file, extension: name.split('.').pop()!.toLowerCase() }
  }
  const [top, ...rest] = first.path.split('/')
  const name = rest.length || shown.length === 1 ? top! : `${shown.length} files`
  return { name, file: await zip(shown, onProgress), extension: 'zip' }
}

const entryOf = (file: File, path: string): ZipEntry => ({ path, file, modifiedMs: file.lastModified })

export const filesOf = (list: FileList): ZipEntry[] =>
  Array.from(list, (file) => entryOf(file, file.webkitRelativePath || file.name))

/** Dropped files and folders with all that is in them. */
export async function droppedFiles(transfer: DataTransfer): Promise<ZipEntry[]> {
  const roots = Array.from(transfer.items, (item) => item.webkitGetAsEntry()).filter((entry) => entry !== null)
  return (await Promise.all(roots.map((entry) => filesBelow(entry, '')))).flat()
}

async function filesBelow(entry: FileSystemEntry, parent: string): Promise<ZipEntry[]> {
  const path = parent + entry.name
  if (isHidden(path)) return []
  if (entry.isFile) {
    const file = await new Promise<File>((resolve, reject) => (entry as FileSystemFileEntry).file(resolve, reject))
    return [entryOf(file, path)]
  }
  const reader = (entry as FileSystemDirectoryEntry).createReader()
  const found: ZipEntry[] = []
  for (;;) {
    const some = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject))
    if (!some.length) return found
    for (const one of some) found.push(...(await filesBelow(one, path + '/')))
  }
}
