import { expect, test } from 'vitest'
import { chosenFile } from '../src/app/chosen-files'
import { zip } from '../src/app/zip'

const entry = (path: string, text: string) => ({ path, file: new Blob([text]), modifiedMs: Date.UTC(2026, 0, 2, 3) })

test('a zip ends with its directory, which names each file', async () => {
  const bytes = new Uint8Array(await (await zip([entry('a/b.md', 'x'), entry('c.md', '')], () => {})).arrayBuffer())
  const end = new DataView(bytes.buffer, bytes.length - 22)
  expect(end.getUint32(0, true)).toBe(0x06054b50)
  expect(end.getUint16(10, true)).toBe(2)
  const first = new DataView(bytes.buffer, end.getUint32(16, true))
  expect(first.getUint32(0, true)).toBe(0x02014b50)
  expect(first.getUint16(12, true)).toBe(3 << 11) // the hour in UTC, whatever the time zone is here
  expect(first.getUint16(14, true)).toBe(((2026 - 1980) << 9) | (1 << 5) | 2)
})

test('an export is uploaded as it is, a folder as a zip without hidden files', async () => {
  const ignore = () => {}
  expect(await chosenFile([entry('memory.jsonl', '{}')], ignore)).toMatchObject({
    name: 'memory.jsonl',
    extension: 'jsonl',
  })
  const folder = [entry('Vault/.obsidian/app.json', '{}'), entry('Vault/a.md', 'x')]
  const chosen = await chosenFile(folder, ignore)
  expect(chosen).toMatchObject({ name: 'Vault', extension: 'zip' })
  expect(await chosen.file.text()).not.toContain('.obsidian')
  await expect(chosenFile([entry('.hidden', '')], ignore)).rejects.toThrow('no files')
})
