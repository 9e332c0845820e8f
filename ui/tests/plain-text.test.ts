import { expect, test } from 'vitest'
import { plainText, snippetText } from '../src/app/plain-text'

test.each([
  [
    '# Bread | what | how much | |---|:--:| | flour | 500 g | | salt | 10 g |',
    'Bread · what · how much · flour · 500 g · salt · 10 g',
  ],
  [
    'We back up **nightly**, see [[Disaster plan]] and [[Off-site|elsewhere]] #ops',
    'We back up nightly, see Disaster plan and elsewhere #ops',
  ],
  ['Use `make run`, *never* sudo; [docs](https://example.org)', 'Use make run, never sudo; docs'],
  ['2 * 3 * 4 = 24, a | b', '2 * 3 * 4 = 24, a | b'],
  ['billing (service) - sends invoices - [x] moved', 'billing (service) · sends invoices · moved'],
  ['a dash - like this', 'a dash - like this'],
  ['> quoted ## Second', 'quoted Second'],
  ['snake_case_name and C#', 'snake_case_name and C#'],
  ['Fix: inject it. ```python def test(clock): ... ``` #tests', 'Fix: inject it. def test(clock): ... #tests'],
])('%s', (markdown, expected) => expect(plainText(markdown)).toBe(expected))

test('lines of a hit are apart', () =>
  expect(snippetText('person\nWorks at the *harbour*\nHas two dogs')).toBe(
    'person · Works at the harbour · Has two dogs',
  ))
