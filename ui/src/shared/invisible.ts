// Characters that people do not see and that models or terminals obey, shown by name in every text, tooltip and label
// of a page: the same as src/memory_mcp/text/invisible_characters.py. Fields and editors have the exact text.
import { options, type VNode } from 'preact'

const FLAG = '\u{1f3f4}[\u{e0030}-\u{e0039}\u{e0061}-\u{e007a}]{3,7}\u{e007f}'
const UNPRINTABLE =
  '\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f-\\x9f\\u00ad\\u180e\\u200b\\u2028-\\u202e\\u2060-\\u206f' +
  '\\ufeff\\ufff9-\\ufffb\\u{e0000}-\\u{e00ff}\\u{e01f0}-\\u{e0fff}'
const SELECTORS = '\\ufe00-\\ufe0f\\u{e0100}-\\u{e01ef}'
const BLANK = `\\u034f\\u115f\\u1160\\u17b4\\u17b5\\u3164\\uffa0${SELECTORS}`
const INVISIBLE = new RegExp(
  // eslint-disable-next-line no-misleading-character-class -- each character of these classes is meant alone
  `${FLAG}|([${UNPRINTABLE}\\u3164\\uffa0]|(?<=[${BLANK}])[${BLANK}]|(?<![^\\x00-"$-)+-/:-\\x7f])[${SELECTORS}])`,
  'gu',
)

const name = (character: string) => `<U+${character.codePointAt(0)!.toString(16).toUpperCase().padStart(4, '0')}>`

export const shown = (text: string): string =>
  text.replace(INVISIBLE, (whole: string, hidden?: string) => (hidden ? name(hidden) : whole))

const LABELS = ['aria-label', 'title', 'alt', 'placeholder'] // attributes that people read or hear

function showInLabels(props: Record<string, unknown>): void {
  for (const name of LABELS) {
    const text = props[name]
    if (typeof text === 'string') props[name] = shown(text)
  }
}

/** From now on, in every text that is drawn: Preact makes a node without a type of each. */
export function showInvisibleCharacters(): void {
  const before = options.vnode?.bind(options)
  options.vnode = (vnode: VNode) => {
    const drawn = vnode as unknown as { type: unknown; props: unknown }
    if (drawn.type === null && typeof drawn.props === 'string') drawn.props = shown(drawn.props)
    if (typeof drawn.type === 'string') showInLabels(drawn.props as Record<string, unknown>)
    before?.(vnode)
  }
}
