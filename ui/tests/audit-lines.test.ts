import { expect, test } from 'vitest'
import { auditLine } from '../src/app/audit-lines'

test.each([
  ['key_created', { name: 'laptop' }, 'The key “laptop” was created'],
  ['signed_in', { by: 'link' }, 'You signed in with a link'],
  ['delete_entities', { arguments: { names: ['Ann', 'Bob'] } }, '2 entities were deleted'],
  ['delete_entities', { arguments_begin: '{' }, 'Entities were deleted'],
  ['remove_memory', { arguments: { store: 'work', path: 'a/b' } }, 'The file “a/b” was deleted from the store “work”'],
  ['portal_delete', { portalUri: 'mem://a/b', table: 't', deleted: 2 }, '2 rows of the table “t” of mem://a/b deleted'],
  ['delete_memory', { ref: 'memory://note/7f' }, 'A note was deleted'],
  ['delete_memory', { ref: 'graph:shop/Ann%20Berg' }, 'The entity “Ann Berg” was deleted'],
  ['password_set', { name: 'ann' }, 'You set a new password for ann'],
  ['import', { file: 'Vault', imported: 1 }, 'Vault was imported: 1 new memory'],
  ['something_new', {}, 'something new'],
])('%s in words', (action, details, line) => expect(auditLine({ action, details })).toBe(line))
