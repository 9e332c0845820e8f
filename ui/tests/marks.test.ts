import { expect, test } from 'vitest'
import { markDifferences, markWords } from '../src/app/marks'

const marked = (text: string, query: string) =>
  markWords(text, query)
    .map(([part, isMarked]) => (isMarked ? `[${part}]` : part))
    .join('')

test('words of the search are marked in their forms, whatever their case and accents', () => {
  expect(marked('Backups: we back up the CAFÉ nightly.', 'backup cafe')).toBe(
    '[Backups]: we back up the [CAFÉ] nightly.',
  )
  expect(marked('She plans, he planned it', 'planning')).toBe('She plans, he [planned] it')
})

test('parts of words, single letters and operators are not marked', () => {
  expect(marked('A cat and a category or not', 'a cat AND dog')).toBe('A [cat] and a category or not')
  expect(marked('it is iterated', 'it')).toBe('[it] is iterated')
})

test('all of the text stays, in its order', () => {
  expect(markWords('tea', 'tea')).toEqual([['tea', true]])
  expect(markWords('', 'tea')).toEqual([])
  expect(markWords('no match', 'tea')).toEqual([['no match', false]])
})

test('words that only one text has are marked', () => {
  expect(markDifferences('The rent is 1200 a month', 'the rent is 1300 a Month')).toEqual([
    ['The rent is ', false],
    ['1200', true],
    [' a month', false],
  ])
})
