import { expect, test } from 'vitest'
import {
  changedFields,
  conflictingFields,
  newNote,
  noteText,
  ownTags,
  splitTags,
  type NoteFields,
} from '../src/app/note-fields'

const BASE: NoteFields = { title: 'Plan', content: 'Text', tags: 'ops, first idea', importance: 0.5, namespace: 'work' }

test.each([
  ['ops, first idea', ['ops', 'first idea']],
  ['#ops #idea', ['ops', 'idea']],
  [' , \n#a\n', ['a']],
  ['', []],
])('tags of %j', (text, tags) => expect(splitTags(text)).toEqual(tags))

test('own tags are those that neither the text nor the server adds', () => {
  const note = {
    content: 'For #ops-team, (#Plan) and `#code`\n```\n#fenced\n```',
    tags: ['ops', 'ops-team', 'plan', 'code', 'fenced', 'mcp', 'archived', 'ns/work', 'cursor'],
    client: 'cursor',
  }
  expect(ownTags(note)).toEqual(['ops', 'code', 'fenced'])
})

test('saving sends only what changed', () => {
  expect(changedFields(BASE, BASE)).toEqual({})
  expect(changedFields(BASE, { ...BASE, content: 'New', tags: 'OPS, second' })).toEqual({
    content: 'New',
    add_tags: ['second'],
    remove_tags: ['first idea'],
  })
  expect(changedFields(BASE, { ...BASE, title: '' })).toEqual({}) // an empty title keeps the old one
})

test('a conflict is a field that both sides changed, and differently', () => {
  const mine = { ...BASE, content: 'Mine', title: 'Both', importance: 0.9 }
  const theirs = { ...BASE, content: 'Theirs', title: 'Both', namespace: 'home' }
  expect(conflictingFields(BASE, mine, theirs)).toEqual(['text'])
  expect(conflictingFields(theirs, mine, theirs)).toEqual([]) // after the user saw theirs
})

test('a new note leaves out empty fields', () => {
  expect(newNote({ ...BASE, title: '', namespace: '' })).toEqual({
    content: 'Text',
    importance: 0.5,
    tags: ['ops', 'first idea'],
  })
})

test('the text of a note holds every field', () => {
  expect(noteText(BASE)).toBe('Plan\n\nText\n\ntags: ops, first idea\nimportance: 0.5\nnamespace: work')
})
