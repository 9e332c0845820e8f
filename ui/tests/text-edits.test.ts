import { expect, test } from 'vitest'
import {
  completeTitle,
  insertLink,
  startedTitle,
  toggleMarks,
  togglePrefix,
  type Selected,
} from '../src/app/text-edits'

/** `a [bc] d` has bc selected. */
function selected(marked: string): Selected {
  const start = marked.indexOf('<')
  const end = marked.indexOf('>') - 1
  return { text: marked.replace(/[<>]/g, ''), start, end }
}

const shown = ({ text, start, end }: Selected) => `${text.slice(0, start)}<${text.slice(start, end)}>${text.slice(end)}`

test('marks are put around a selection and taken away again', () => {
  const bold = toggleMarks(selected('a <b> c'), '**')
  expect(shown(bold)).toBe('a **<b>** c')
  expect(shown(toggleMarks(bold, '**'))).toBe('a <b> c')
})

test('every selected line gets a prefix or loses it', () => {
  const list = togglePrefix(selected('one\nt<wo\nthr>ee'), '- ')
  expect(shown(list)).toBe('one\n- t<wo\n- thr>ee')
  expect(shown(togglePrefix(list, '- '))).toBe('one\nt<wo\nthr>ee')
})

test('a selection becomes a link', () => {
  expect(shown(insertLink(selected('see <Plan> now')))).toBe('see [[<Plan>]] now')
})

test('a title is completed where a link is being written', () => {
  const text = 'see [[Disa and more'
  expect(startedTitle(text, 10)).toBe('Disa')
  expect(shown(completeTitle(text, 10, 'Disaster plan'))).toBe('see [[Disaster plan]]<> and more')
  expect(completeTitle('[[Di]] x', 4, 'Disk').text).toBe('[[Disk]] x')
  for (const other of ['no link', '[[Done]] after', '[[line\nnext', '[[a|b'])
    expect(startedTitle(other, other.length)).toBe(null)
})
