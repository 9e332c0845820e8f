// Changes to the code of packages while they are bundled.
import type { Plugin } from 'vite'
import { LOCALE } from './src/shared/locale'

/** force-graph adds style elements, which the policy of the web app refuses; app.css has what is needed. */
export const withoutInjectedStyles: Plugin = {
  name: 'without-injected-styles',
  transform: (code, id) =>
    /(force-graph|float-tooltip)\.mjs$/.test(id) ? code.replaceAll('styleInject(css_248z);', '') : null,
}

/** `code` of uPlot, which creates a number format in the browser's language when it is loaded: in ours instead. */
export function replaceLanguage(code: string): string {
  const changed = code.replace('domEnv ? nav.language : ', '')
  if (changed === code || changed.includes('.language')) throw new Error('uPlot reads the language in a new way.')
  return changed.replace("NumberFormat('en-US')", `NumberFormat('${LOCALE}')`)
}

export const withOneLocale: Plugin = {
  name: 'with-one-locale',
  transform: (code, id) => (/uPlot\.esm\.js$/.test(id) ? replaceLanguage(code) : null),
}
