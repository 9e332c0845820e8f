import { expect, test } from 'vitest'
import { auditLine, auditLines } from '../src/app/audit-lines'

test.each([
  ['key_created', { name: 'laptop' }, 'The key “laptop” was created'],
  ['signed_in', { by: 'link' }, 'You signed in with a link'],
  ['delete_entities', { arguments: { names: ['Ann', 'Bob'] } }, '2 entities were deleted'],
  ['delete_entities', { arguments_begin: '{' }, 'Entities were deleted'],
  ['remove_memory', { arguments: { store: 'work', path: 'a/b' } }, 'The file “a/b” was deleted from the store “work”'],
  ['portal_delete', { portalUri: 'mem://a/b', table: 't', deleted: 2 }, '2 rows of the table “t” of mem://a/b deleted'],
  ['delete_memory', { ref: 'memory://note/7f' }, 'A note was archived'],
  ['delete_memory', { ref: 'memory://note/7f', for_good: true }, 'A note was deleted for good'],
  ['delete_memory', { ref: 'graph:shop/Ann%20Berg' }, 'The entity “Ann Berg” was deleted'],
  ['password_set', { name: 'ann' }, 'You set a new password for ann'],
  ['import', { file: 'Vault', imported: 1 }, 'Vault was imported: 1 new memory'],
  ['something_new', {}, 'something new'],
])('%s in words', (action, details, line) => expect(auditLine({ action, details })).toBe(line))

test('equal lines one after the other are one', () => {
  const entry = (id: number, action: string, client = 'web app') => ({
    ...{ id, action, client, at: '2026-01-01T00:00:00Z', key_id: null, ip: null },
    details: action === 'delete_memory' ? { ref: `memory://note/${id}` } : {},
  })
  const found = auditLines([
    ...[entry(5, 'delete_memory'), entry(4, 'delete_memory'), entry(3, 'delete_memory', 'cursor')],
    ...[entry(2, 'key_revoked'), entry(1, 'delete_memory')],
  ])
  expect(found.map(({ entry: { id }, sentence, count }) => [id, sentence, count])).toEqual([
    [5, 'A note was archived', 2],
    [3, 'A note was archived', 1],
    [2, 'A key was revoked', 1],
    [1, 'A note was archived', 1],
  ])
})
