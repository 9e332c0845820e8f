import { expect, test } from 'vitest'
import { entityRef, noteRef, refHref } from '../src/app/refs'
import { apiUrl, decode, href } from '../src/app/urls'

test('addresses of the app escape their parts and leave out empty values', () => {
  expect(href(['stores', 'a b', 'c/d 5%'], { file: '1', tag: '', edit: undefined })).toBe(
    '/stores/a%20b/c%2Fd%205%25?file=1',
  )
  expect(href([])).toBe('/')
})

test('addresses of the API fill in parameters and repeat lists', () => {
  expect(apiUrl('/api/mcp/keys/{key_id}', { key_id: 'a/b' })).toBe('/api/mcp/keys/a%2Fb')
  expect(apiUrl('/api/notes', {}, { tag: ['a', 'b&c'], limit: 50, archived: false, after: null })).toBe(
    '/api/notes?tag=a&tag=b%26c&limit=50',
  )
})

test('a text with a stray % stays as it is', () => {
  expect(decode('50%25')).toBe('50%')
  expect(decode('50%')).toBe('50%')
})

test.each([
  [noteRef('n1'), '/memories/note/n1'],
  ['stores:work/people/ann%20b', '/stores/work/people/ann%20b?file=1'],
  ['mem://shop/orders/items?x=1', '/portals/shop/orders?table=items'],
  ['mem://shop/orders', '/portals/shop/orders'],
  [entityRef('a/b', 'c d'), '/memories/open?ref=graph%3Aa%252Fb%2Fc%2520d'],
  ['vault:key', '/memories/open?ref=vault%3Akey'],
])('the page of %s', (ref, page) => expect(refHref(ref)).toBe(page))
