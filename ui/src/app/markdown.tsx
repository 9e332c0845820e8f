// Markdown as elements, never as HTML: what agents write down is not to be trusted.
import type { ComponentChildren, VNode } from 'preact'
import { to } from './router'

const INLINE = /(`[^`]+`)|(\*\*[^*]+\*\*)|(\*[^*\s][^*]*\*)|(\[\[[^\][]+\]\])|(\[[^\]]+\]\([^)\s]+\))|(https?:\/\/[^\s<>")\]]+)|((?<=^|\s)#[\p{L}\p{N}_/-]+)/gu

function inline(text: string): ComponentChildren[] {
  const parts: ComponentChildren[] = []
  let end = 0
  for (const match of text.matchAll(INLINE)) {
    const [all, code, strong, emphasis, wiki, link, url, tag] = match
    parts.push(text.slice(end, match.index))
    end = match.index + all.length
    if (code) parts.push(<code>{code.slice(1, -1)}</code>)
    else if (strong) parts.push(<strong>{inline(strong.slice(2, -2))}</strong>)
    else if (emphasis) parts.push(<em>{inline(emphasis.slice(1, -1))}</em>)
    else if (wiki) {
      const [title, shown] = wiki.slice(2, -2).split('|')
      parts.push(<a href={to(['memories'], { title })}>{shown ?? title}</a>)
    } else if (link) {
      const [, shown, target] = /^\[(.+)\]\((.+)\)$/.exec(link)!
      parts.push(/^(https?:|mailto:)/.test(target!) ? <a href={target} rel="noreferrer" target="_blank">{shown}</a> : `${shown} (${target})`)
    } else if (url) parts.push(<a href={url} rel="noreferrer" target="_blank">{url}</a>)
    else if (tag) parts.push(<a href={to(['memories'], { tag: tag.slice(1) })}>{tag}</a>)
  }
  parts.push(text.slice(end))
  return parts
}

const HEADINGS = ['h3', 'h4', 'h5', 'h6', 'h6', 'h6'] as const // below the page's own

export function Markdown({ text }: { text: string }) {
  const lines = text.replaceAll('\r\n', '\n').split('\n')
  const blocks: VNode[] = []
  for (let at = 0; at < lines.length; ) {
    const line = lines[at]!
    const take = (pattern: RegExp) => {
      const taken: string[] = []
      while (at < lines.length && pattern.test(lines[at]!)) taken.push(lines[at++]!)
      return taken
    }
    const heading = /^(#{1,6})\s+(.*)$/.exec(line)
    if (/^(```|~~~)/.test(line)) {
      const fence = line.slice(0, 3)
      const code: string[] = []
      for (at++; at < lines.length && !lines[at]!.startsWith(fence); at++) code.push(lines[at]!)
      at++
      blocks.push(<pre tabIndex={0}><code>{code.join('\n')}</code></pre>)
    } else if (heading) {
      const Heading = HEADINGS[heading[1]!.length - 1]!
      blocks.push(<Heading>{inline(heading[2]!)}</Heading>)
      at++
    } else if (/^\s*[-*+]\s/.test(line)) {
      blocks.push(<ul>{take(/^\s*[-*+]\s/).map((item) => <li>{inline(item.replace(/^\s*[-*+]\s+/, ''))}</li>)}</ul>)
    } else if (/^\s*\d+[.)]\s/.test(line)) {
      blocks.push(<ol>{take(/^\s*\d+[.)]\s/).map((item) => <li>{inline(item.replace(/^\s*\d+[.)]\s+/, ''))}</li>)}</ol>)
    } else if (/^>/.test(line)) {
      blocks.push(<blockquote>{inline(take(/^>/).map((quoted) => quoted.replace(/^>\s?/, '')).join('\n'))}</blockquote>)
    } else if (/^(-{3,}|\*{3,})\s*$/.test(line)) {
      blocks.push(<hr />)
      at++
    } else if (!line.trim()) at++
    else blocks.push(<p>{inline([lines[at++]!, ...take(/^(?!\s*$|#{1,6}\s|```|~~~|>|\s*[-*+]\s|\s*\d+[.)]\s)/)].join('\n'))}</p>)
  }
  return <div class="markdown">{blocks}</div>
}
