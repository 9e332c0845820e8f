// Pure functions that build and parse addresses.

export type QueryValue = string | number | boolean | string[] | null | undefined

/** `%41` becomes `A`; a text whose % signs are no escapes stays as it is. */
export function decode(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

/** An address of this app. Empty values are left out. */
export function href(path: string[], query: Record<string, string | undefined> = {}): string {
  return '/' + path.map(encodeURIComponent).join('/') + search(query)
}

/** An address of the API: `/api/keys/{key_id}` with its parameters filled in. Empty query values are left out. */
export function apiUrl(
  template: string,
  path: Record<string, string> = {},
  query: Record<string, QueryValue> = {},
): string {
  return template.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(path[name] ?? '')) + search(query)
}

function search(query: Record<string, QueryValue>): string {
  const pairs = Object.entries(query).flatMap(([name, value]) =>
    (Array.isArray(value) ? value : [value]).filter(Boolean).map((item) => [name, String(item)]),
  )
  return pairs.length ? '?' + new URLSearchParams(pairs).toString() : ''
}
