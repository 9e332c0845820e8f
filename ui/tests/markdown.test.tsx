import { render } from 'preact-render-to-string'
import { expect, test } from 'vitest'
import { Markdown } from '../src/app/markdown'

const html = (text: string, namespace?: string) =>
  render(<Markdown text={text} namespace={namespace} />).replace(/^<div class="markdown">|<\/div>$/g, '')

test.each([
  ['# One\n### Three', '<h3>One</h3><h5>Three</h5>'],
  ['**a** *b* `c` ~~d~~', '<p><strong>a</strong> <em>b</em> <code>c</code> <s>d</s></p>'],
  ['snake_case_name and \\*stars\\*', '<p>snake_case_name and *stars*</p>'],
  [
    '- a\n  - b\n- [x] c',
    '<ul><li>a<ul><li>b</li></ul></li><li><span role="img" aria-label="done">☑ </span>c</li></ul>',
  ],
  ['3. a\n4. b', '<ol start="3"><li>a</li><li>b</li></ol>'],
  ['> a\n> b', '<blockquote>a\nb</blockquote>'],
  ['---', '<hr/>'],
])('%j', (text, expected) => expect(html(text)).toBe(expected))

test('a title links to its note, a tag to its notes', () => {
  expect(html('[[Plan|the plan]] #ops', 'work')).toBe(
    '<p><a href="/memories?title=Plan&amp;namespace=work">the plan</a> <a href="/memories?tag=ops">#ops</a></p>',
  )
})

test('addresses become links without their punctuation; other schemes do not', () => {
  const link = '<a href="https://x.test/a" rel="noreferrer" target="_blank">https://x.test/a</a>'
  expect(html('(https://x.test/a).')).toBe(`<p>(${link}).</p>`)
  expect(html('[click](javascript:alert)')).toBe('<p>click (javascript:alert)</p>')
})

test('HTML in the text stays text', () => {
  expect(html('<img src=x onerror=alert(1)>')).toBe('<p>&lt;img src=x onerror=alert(1)></p>')
})

test('a table has as many cells in each row as in its head', () => {
  const rows = html('| a | b |\n|---|---|\n| 1 | 2 \\| 3 |\n| 4 |').match(/<tr>.*?<\/tr>/g)
  expect(rows).toEqual([
    '<tr><th scope="col">a</th><th scope="col">b</th></tr>',
    '<tr><td>1</td><td>2 | 3</td></tr>',
    '<tr><td>4</td><td></td></tr>',
  ])
})

test('code is not parsed', () => {
  expect(html('```\n# no\n```')).toBe('<pre tabindex="0"><code># no</code></pre>')
})
