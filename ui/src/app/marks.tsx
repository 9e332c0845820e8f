// The words of a search, marked in a text.

const WORD = /[\p{L}\p{N}]+/gu
const OPERATORS = new Set(['AND', 'OR', 'NOT', 'NEAR'])
const MIN_STEM_CHARS = 4
const MIN_WORD_CHARS = 2

const folded = (word: string) => word.normalize('NFD').replace(/\p{M}/gu, '').toLowerCase()

/** The part that forms of a word have in common, about as the search does it. */
function stem(word: string): string {
  const cut = word.replace(/(ings?|ed|es|s|e)$/, '')
  return cut.length >= MIN_STEM_CHARS ? cut : word
}

const isForm = (word: string, ofStem: string) =>
  word === ofStem || word === ofStem + 's' || (ofStem.length >= MIN_STEM_CHARS && word.startsWith(ofStem))

/** The parts of a text, each with whether the search has its word. */
export function markWords(text: string, query: string): [part: string, isMarked: boolean][] {
  const stems = [...query.matchAll(WORD)]
    .filter(([word]) => word.length >= MIN_WORD_CHARS && !OPERATORS.has(word))
    .map(([word]) => stem(folded(word)))
  return markMatching(text, (word) => stems.some((one) => isForm(word, one)))
}

/** The parts of a text, each with whether another text lacks its word. */
export function markDifferences(text: string, other: string): [part: string, isMarked: boolean][] {
  const known = new Set([...other.matchAll(WORD)].map(([word]) => folded(word)))
  return markMatching(text, (word) => !known.has(word))
}

function markMatching(text: string, isMarked: (word: string) => boolean): [string, boolean][] {
  const parts: [string, boolean][] = []
  let end = 0
  for (const { 0: word, index } of text.matchAll(WORD)) {
    if (!isMarked(folded(word))) continue
    if (index > end) parts.push([text.slice(end, index), false])
    parts.push([word, true])
    end = index + word.length
  }
  if (end < text.length) parts.push([text.slice(end), false])
  return parts
}

export function Marked({ text, query }: { text: string; query: string }) {
  if (!query) return <>{text}</>
  return <>{markWords(text, query).map(([part, isMarked]) => (isMarked ? <mark>{part}</mark> : part))}</>
}
