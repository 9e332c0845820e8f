// Markdown as elements, never as HTML: the texts of agents are not trusted. Every expression takes linear time: what
// opens a construct cannot open it again inside, or its length is bounded.
import type { ComponentChildren, VNode } from 'preact'
import { useMemo } from 'preact/hooks'
import { href } from './urls'
import { Scroll } from '../shared/scroll'

const INLINE = new RegExp(
  [
    /\\([!-/:-@[-`{-~])/u, // an escape
    /`([^`]+)`/u,
    // strong
    /\*\*(?=\S)((?:[^*]|\*(?!\*(?!\*))){1,2000})\*\*|(?<![\p{L}\p{N}_])__(?=\S)([^_]{1,2000})__(?![\p{L}\p{N}_])/u,
    /\*(?=[^*\s])([^*]{1,2000})\*|(?<![\p{L}\p{N}_])_(?=[^_\s])([^_]{1,2000})(?<=\S)_(?![\p{L}\p{N}_])/u, // emphasis
    /~~(?=\S)([^~]{1,2000})~~/u,
    /\[\[([^\][]{1,1000})\]\]/u, // a note's title
    /\[([^\][]{1,1000})\]\(([^()\s]{1,2000}(?:\([^()\s]{0,2000}\)[^()\s]{0,2000})?)(?:\s+"[^"\n]{0,1000}")?\)/u,
    /(https?:\/\/[^\s<>"\]]+)/u,
    /(?<=^|\s)#([\p{L}\p{N}_/-]+)/u,
  ]
    .map((part) => part.source)
    .join('|'),
  'gu',
)

/** Without the punctuation after an address, and without the bracket around it. */
function trimUrl(url: string): string {
  const after = ".,;:!?'*_~" + (url.includes('(') ? '' : ')')
  let end = url.length
  while (after.includes(url[end - 1]!)) end--
  return url.slice(0, end)
}

function inline(text: string, namespace?: string): ComponentChildren[] {
  const parts: ComponentChildren[] = []
  let end = 0
  for (const match of text.matchAll(INLINE)) {
    const [all, escaped, code, strong, strong2, emphasis, emphasis2, struck, wiki, label, target, url, tag] = match
    const renderInner = (inner: string) => inline(inner, namespace)
    parts.push(text.slice(end, match.index))
    end = match.index + all.length
    if (escaped) parts.push(escaped)
    else if (code) parts.push(<code>{code}</code>)
    else if (strong ?? strong2) parts.push(<strong>{renderInner((strong ?? strong2)!)}</strong>)
    else if (emphasis ?? emphasis2) parts.push(<em>{renderInner((emphasis ?? emphasis2)!)}</em>)
    else if (struck) parts.push(<s>{renderInner(struck)}</s>)
    else if (wiki) {
      const [title, shown] = wiki.split('|')
      parts.push(<a href={href(['memories'], { title, namespace })}>{shown ?? title}</a>)
    } else if (label)
      parts.push(
        /^(https?:|mailto:)/.test(target!) ? (
          <a href={target} rel="noreferrer" target="_blank">
            {label}
          </a>
        ) : (
          `${label} (${target})`
        ),
      )
    else if (url) {
      const address = trimUrl(url)
      parts.push(
        <a href={address} rel="noreferrer" target="_blank">
          {address}
        </a>,
        url.slice(address.length),
      )
    } else if (tag) parts.push(<a href={href(['memories'], { tag })}>#{tag}</a>)
  }
  parts.push(text.slice(end))
  return parts
}

const HEADINGS = ['h3', 'h4', 'h5', 'h6', 'h6', 'h6'] as const // below the page's own
const ITEM = /^(\s*)(?:[-*+]|(\d{1,9})[.)])\s+(.*)$/
const MAX_LIST_DEPTH = 8 // lists in lists

interface Item {
  indent: number
  number: number | null
  text: string
  inner: Item[]
}

/** The items of the list that begins at a line, and the line after it. Indented lines continue their item. */
function parseItems(lines: string[], from: number): [Item[], number] {
  const top: Item[] = []
  const open: Item[] = []
  let at = from
  for (; at < lines.length; at++) {
    const line = lines[at]!
    const found = ITEM.exec(line)
    if (!found && (!/^\s+\S/.test(line) || !open.length)) break
    if (!found) {
      open.at(-1)!.text += '\n' + line.trim()
      continue
    }
    const item: Item = {
      indent: found[1]!.replaceAll('\t', '    ').length,
      number: found[2] ? Number(found[2]) : null,
      text: found[3]!,
      inner: [],
    }
    while (open.length && (open.length >= MAX_LIST_DEPTH || open.at(-1)!.indent + 1 >= item.indent)) {
      const isDeep = open.length >= MAX_LIST_DEPTH && open.at(-1)!.indent < item.indent
      open.pop()
      if (isDeep) break
    }
    ;(open.at(-1)?.inner ?? top).push(item)
    open.push(item)
  }
  return [top, at]
}

function ItemList({ items, namespace }: { items: Item[]; namespace?: string }): VNode {
  const runs: Item[][] = []
  for (const item of items) {
    const run = runs.at(-1)
    if (run && (run[0]!.number === null) === (item.number === null)) run.push(item)
    else runs.push([item])
  }
  const renderItem = (item: Item) => {
    const task = /^\[([ xX])\]\s/.exec(item.text)
    return (
      <li>
        {task && (
          <span role="img" aria-label={task[1] === ' ' ? 'to do' : 'done'}>
            {task[1] === ' ' ? '☐ ' : '☑ '}
          </span>
        )}
        {inline(task ? item.text.slice(4) : item.text, namespace)}
        {item.inner.length > 0 && <ItemList items={item.inner} namespace={namespace} />}
      </li>
    )
  }
  return (
    <>
      {runs.map((run) =>
        run[0]!.number === null ? (
          <ul>{run.map(renderItem)}</ul>
        ) : (
          <ol start={run[0]!.number}>{run.map(renderItem)}</ol>
        ),
      )}
    </>
  )
}

const cells = (line: string) =>
  line
    .trim()
    .replace(/^\|/, '')
    .replace(/(?<!\\)\|$/, '')
    .split(/(?<!\\)\|/)
    .map((cell) => cell.trim().replaceAll('\\|', '|'))
const isRule = (line: string | undefined) =>
  line !== undefined && line.includes('-') && line.includes('|') && cells(line).every((cell) => /^:?-+:?$/.test(cell))
const isTable = (lines: string[], at: number) =>
  lines[at]!.includes('|') && isRule(lines[at + 1]) && cells(lines[at]!).length === cells(lines[at + 1]!).length

function blocks(text: string, namespace?: string): VNode[] {
  const lines = text.replaceAll('\r\n', '\n').split('\n')
  const elements: VNode[] = []
  for (let at = 0; at < lines.length;) {
    const line = lines[at]!
    const takeLines = (pattern: RegExp, isEnd: (at: number) => boolean = () => false) => {
      const matching: string[] = []
      while (at < lines.length && pattern.test(lines[at]!) && !isEnd(at)) matching.push(lines[at++]!)
      return matching
    }
    const heading = /^(#{1,6})\s+(.*)$/.exec(line)
    if (/^(```|~~~)/.test(line)) {
      const fence = line.slice(0, 3)
      const code: string[] = []
      for (at++; at < lines.length && !lines[at]!.startsWith(fence); at++) code.push(lines[at]!)
      at++
      elements.push(
        <pre tabIndex={0}>
          <code>{code.join('\n')}</code>
        </pre>,
      )
    } else if (heading) {
      const Heading = HEADINGS[heading[1]!.length - 1]!
      elements.push(<Heading>{inline(heading[2]!, namespace)}</Heading>)
      at++
    } else if (/^(-{3,}|\*{3,}|_{3,})\s*$/.test(line)) {
      elements.push(<hr />)
      at++
    } else if (ITEM.test(line)) {
      const [found, end] = parseItems(lines, at)
      elements.push(<ItemList items={found} namespace={namespace} />)
      at = end
    } else if (/^>/.test(line)) {
      elements.push(
        <blockquote>
          {inline(
            takeLines(/^>/)
              .map((quoted) => quoted.replace(/^>\s?/, ''))
              .join('\n'),
            namespace,
          )}
        </blockquote>,
      )
    } else if (isTable(lines, at)) {
      const head = cells(line)
      const rows: string[][] = []
      for (at += 2; at < lines.length && lines[at]!.includes('|'); at++) rows.push(cells(lines[at]!))
      elements.push(
        <Scroll label="Table" role="group">
          <table>
            <thead>
              <tr>
                {head.map((cell) => (
                  <th scope="col">{inline(cell, namespace)}</th>
                ))}
              </tr>
            </thead>
            <tbody>
              {rows.map((row) => (
                <tr>
                  {head.map((_, column) => (
                    <td>{inline(row[column] ?? '', namespace)}</td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </Scroll>,
      )
    } else if (!line.trim()) at++
    else
      elements.push(
        <p>
          {inline(
            [
              lines[at++]!,
              ...takeLines(/^(?!\s*$|#{1,6}\s|```|~~~|>|\s*[-*+]\s|\s*\d{1,9}[.)]\s)/, (at) => isTable(lines, at)),
            ].join('\n'),
            namespace,
          )}
        </p>,
      )
  }
  return elements
}

/** A [[Title]] is searched first in `namespace`. */
export function Markdown({ text, namespace }: { text: string; namespace?: string }) {
  const renderItem = useMemo(() => blocks(text, namespace), [text, namespace])
  return <div class="markdown">{renderItem}</div>
}
