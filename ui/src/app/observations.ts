// The observations of an entity as one markdown list that people edit: an item for each, further lines indented.

export const observationsText = (observations: string[]) =>
  observations.map((one) => '- ' + one.split(/\r\n?|\n/).join('\n  ')).join('\n')

/** The observations in a text. Those of `before` that did not change keep their line ends. */
export function observationsOf(text: string, before: string[] = []): string[] {
  const found: string[] = []
  for (const line of text.split(/\r\n?|\n/)) {
    if (/^[-*] /.test(line)) found.push(line.slice(2))
    else if (line.startsWith('  ') && found.length) found[found.length - 1] += '\n' + line.slice(2)
    else if (line.trim()) found.push(line)
  }
  const unchanged = new Map(before.map((one) => [one.replace(/\r\n?/g, '\n'), one]))
  return [...new Set(found.filter((one) => one.trim()).map((one) => unchanged.get(one) ?? one))]
}

/** As the server reads them: JSON is YAML, except for characters that YAML wants escaped. */
export const observationsJson = (observations: string[]) =>
  JSON.stringify(observations).replace(
    /[\u007f-\u009f\u2028\u2029\ufeff\ufffe\uffff]/g,
    (character) => '\\u' + character.charCodeAt(0).toString(16).padStart(4, '0'),
  )
