// The beginning of a memory as a line of text: markdown without its marks. The server has joined the lines.

const LIST_MARK = /(?:^|\s)-\s+(?:\[[ xX]\]\s+)?/g
const FENCE = /(^|\s)(?:```|~~~)[\w+#.-]*(?=\s|$)/g // of a block of code, with its language
const MIN_LIST_MARKS = 2 // a single one may be a dash
const TABLE_RULER = /\|(?:\s*:?-{2,}:?\s*\|)+/g

export function plainText(markdown: string): string {
  const hasTable = markdown.search(TABLE_RULER) >= 0
  const hasList = (markdown.match(LIST_MARK)?.length ?? 0) >= MIN_LIST_MARKS
  const lines = hasTable ? markdown.replace(TABLE_RULER, ' ').replace(/(?:\s*\|)+\s*/g, ' · ') : markdown
  return (hasList ? lines.replace(LIST_MARK, ' · ') : lines)
    .replace(FENCE, '$1')
    .replace(/(^|\s)#{1,6}\s+/g, '$1')
    .replace(/(^|\s)>\s+/g, '$1')
    .replace(/(\*\*|__|~~)(?=\S)([^*_~]{1,500})\1/g, '$2')
    .replace(/(^|\W)\*(?=\S)([^*]{1,500})\*(?=\W|$)/g, '$1$2')
    .replace(/`([^`]{1,500})`/g, '$1')
    .replace(/\[\[([^\][|]{1,500})(?:\|([^\][]{1,500}))?\]\]/g, (_, title: string, shown?: string) => shown ?? title)
    .replace(/\[([^\][]{1,500})\]\([^()\s]{1,500}\)/g, '$1')
    .replace(/ {2,}/g, ' ')
    .replace(/^[\s·]+|[\s·]+$/g, '')
}

/** The same of a hit of a search, in which the observations of an entity are lines. */
export const snippetText = (snippet: string) => plainText(snippet.replace(/\s*\n\s*/g, ' · '))
