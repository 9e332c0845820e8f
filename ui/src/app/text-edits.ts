// Pure functions on the text of an editor and its selection.
export interface Selected {
  text: string
  start: number
  end: number
}

/** Put marks around the selection, or take them away if they are there. */
export function toggleMarks({ text, start, end }: Selected, mark: string): Selected {
  const inner = text.slice(start, end)
  const [before, after] = [text.slice(0, start), text.slice(end)]
  if (before.endsWith(mark) && after.startsWith(mark))
    return {
      text: before.slice(0, -mark.length) + inner + after.slice(mark.length),
      start: start - mark.length,
      end: end - mark.length,
    }
  return { text: before + mark + inner + mark + after, start: start + mark.length, end: end + mark.length }
}

/** Begin every selected line with a prefix, or take it away if all have it. */
export function togglePrefix({ text, start, end }: Selected, prefix: string): Selected {
  const from = text.lastIndexOf('\n', start - 1) + 1
  const next = text.indexOf('\n', end)
  const to = next < 0 ? text.length : next
  const lines = text.slice(from, to).split('\n')
  const hasAll = lines.every((line) => line.startsWith(prefix))
  const changed = lines.map((line) => (hasAll ? line.slice(prefix.length) : prefix + line)).join('\n')
  return {
    text: text.slice(0, from) + changed + text.slice(to),
    start: Math.max(from, start + (hasAll ? -prefix.length : prefix.length)),
    end: Math.max(from, end + changed.length - (to - from)),
  }
}

/** A link to a note: the selection is its title. */
export function insertLink({ text, start, end }: Selected): Selected {
  const title = text.slice(start, end)
  return { text: `${text.slice(0, start)}[[${title}]]${text.slice(end)}`, start: start + 2, end: end + 2 }
}

/** The start of a title behind `[[`, up to the caret. Null where no link is being written. */
export function startedTitle(text: string, caret: number): string | null {
  const line = text.slice(text.lastIndexOf('\n', caret - 1) + 1, caret)
  const from = line.lastIndexOf('[[')
  const title = line.slice(from + 2)
  return from < 0 || /[[\]|#]/.test(title) ? null : title
}

/** Complete the started title. */
export function completeTitle(text: string, caret: number, title: string): Selected {
  const from = caret - (startedTitle(text, caret) ?? '').length
  const rest = text.slice(caret).replace(/^\]\]/, '')
  const end = from + title.length + 2
  return { text: `${text.slice(0, from)}${title}]]${rest}`, start: end, end }
}
