import { expect, test } from 'vitest'
import { createElement } from 'preact'
import { showInvisibleCharacters, shown } from '../src/shared/invisible'

test('characters that people do not see are shown by name', () => {
  expect(shown('a\u202eb\u200bc\x1b[31md\u{e0041}e')).toBe('a<U+202E>b<U+200B>c<U+001B>[31md<U+E0041>e')
  expect(shown('😀\ufe01\ufe02 a\ufe0f x\u3164')).toBe('😀\ufe01<U+FE02> a<U+FE0F> x<U+3164>')
  const flag = '🏴\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f}'
  const plain = `👩‍👩‍👧 ❤️‍🔥 1️⃣ می‌خواهم \u200fשלום\u200e ${flag}\tx\n`
  expect(shown(plain)).toBe(plain)
})

test('labels and tooltips show them, fields have the exact text', () => {
  showInvisibleCharacters()
  const { props } = createElement('input', { 'aria-label': 'Edit a\u202eb', title: 'a\u200bb', value: 'a\u202eb' })
  expect(props).toEqual({ 'aria-label': 'Edit a<U+202E>b', title: 'a<U+200B>b', value: 'a\u202eb' })
})
