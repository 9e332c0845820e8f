import { expect, test } from 'vitest'
import { chosenFile } from '../src/app/chosen-files'
import { crc32, zip } from '../src/app/zip'

const entry = (path: string, text: string) => ({ path, file: new Blob([text]), modifiedMs: Date.UTC(2026, 0, 2) })

test('the checksum is that of zip', async () => expect(await crc32(new Blob(['123456789']))).toBe(0xcbf43926))

test('a zip ends with its directory, which names each file', async () => {
  const bytes = new Uint8Array(await (await zip([entry('a/b.md', 'x'), entry('c.md', '')], () => {})).arrayBuffer())
  const end = new DataView(bytes.buffer, bytes.length - 22)
  expect(end.getUint32(0, true)).toBe(0x06054b50)
  expect(end.getUint16(10, true)).toBe(2)
  expect(new DataView(bytes.buffer).getUint32(end.getUint32(16, true), true)).toBe(0x02014b50)
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
