import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { LOCALE } from '../src/shared/locale'
import { replaceLanguage } from '../vite-plugins'

test('the locale is a valid language tag', () => {
  expect(Intl.getCanonicalLocales(LOCALE)).toEqual([LOCALE])
})

test('uPlot formats numbers in the locale of the app and does not read the language of the browser', () => {
  const code = replaceLanguage(readFileSync('node_modules/uplot/dist/uPlot.esm.js', 'utf-8'))
  expect(code).toContain(`new Intl.NumberFormat('${LOCALE}')`)
  expect(code).not.toContain('.language')
})

test('a uPlot that reads the language in another way is refused', () => {
  expect(() => replaceLanguage('new Intl.NumberFormat(navigator.language)')).toThrow('new way')
})
