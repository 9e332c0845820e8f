import { expect, test } from 'vitest'
import { CLIENTS, DEFAULT_CLIENT } from '../src/app/clients'

const [URL, KEY] = ['http://127.0.0.1:8765/mcp', 'mmcp_secret']

test('every setup names the server, and JSON ones parse', () => {
  expect(Object.keys(CLIENTS)).toContain(DEFAULT_CLIENT)
  for (const [name, setup] of Object.entries(CLIENTS)) {
    const { text } = setup(URL, KEY)
    if (text.startsWith('{')) expect(() => JSON.parse(text) as unknown, name).not.toThrow()
    if (name !== 'Claude Desktop') expect(text).toContain(URL)
  }
})

test('the link for Cursor holds the same configuration', () => {
  const { link } = CLIENTS.Cursor!(URL, KEY)
  const config = atob(decodeURIComponent(link!.href.split('config=')[1]!))
  expect(JSON.parse(config)).toEqual({ url: URL, headers: { Authorization: `Bearer ${KEY}` } })
})
