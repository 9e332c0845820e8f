// REST of this server, as the person who is signed in.

export class Refused extends Error {
  constructor(message: string, readonly status: number, readonly word: string) {
    super(message)
  }
}

async function ask<T>(method: string, path: string, body?: unknown): Promise<T> {
  let response: Response
  try {
    response = await fetch(path, {
      method,
      headers: body === undefined ? {} : { 'content-type': 'application/json' },
      body: body === undefined ? undefined : JSON.stringify(body),
    })
  } catch {
    throw new Refused('The server does not answer. Is it running?', 0, 'unavailable')
  }
  if (response.status === 401) location.reload() // the server shows how to sign in
  if (response.status === 204) return undefined as T
  const answer = await response.json().catch(() => ({}))
  if (!response.ok) throw new Refused(answer.detail ?? answer.message ?? response.statusText, response.status, answer.error ?? '')
  return answer as T
}

export const get = <T>(path: string) => ask<T>('GET', path)
export const post = <T>(path: string, body: unknown = {}) => ask<T>('POST', path, body)
export const remove = <T>(path: string) => ask<T>('DELETE', path)
export const tool = <T>(name: string, args: Record<string, unknown> = {}) => post<T>(`/api/tools/${name}`, args)
export const open = <T>(ref: string) => get<T>('/api/open?ref=' + encodeURIComponent(ref))
