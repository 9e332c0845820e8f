// A line-by-line difference of two texts, by their longest common subsequence.

export type Mark = '+' | '-' | ' '
export type DiffLine = [mark: Mark, line: string]

const MAX_CELLS = 4_000_000 // of the table; beyond it, the new text is shown without marks

/** Lines that were added (+), removed (-) and kept. */
export function diff(before: string, after: string): DiffLine[] {
  const [a, b] = [before.split('\n'), after.split('\n')]
  if (a.length * b.length > MAX_CELLS) return b.map((line) => [' ', line])
  const common = commonLengths(a, b)
  const lines: DiffLine[] = []
  let [i, j] = [0, 0]
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      lines.push([' ', a[i]!])
      i++
      j++
    } else if (j >= b.length || (i < a.length && common[i + 1]![j]! >= common[i]![j + 1]!)) lines.push(['-', a[i++]!])
    else lines.push(['+', b[j++]!])
  }
  return lines
}

/** At [i][j]: how many lines the rest of `a` from i on and the rest of `b` from j on have in common. */
function commonLengths(a: string[], b: string[]): Uint16Array[] {
  const table = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1))
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      table[i]![j] = a[i] === b[j] ? table[i + 1]![j + 1]! + 1 : Math.max(table[i + 1]![j]!, table[i]![j + 1]!)
    }
  }
  return table
}
