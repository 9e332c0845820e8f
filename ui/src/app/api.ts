// REST of this server, as the person who is signed in.
import { hasUnsaved } from '../shared/draft'
import { isSignedOut } from './live'

export class Refused extends Error {
  constructor(
    message: string,
    readonly status: number,
    readonly word: string,
  ) {
    super(message)
  }
}

const NAMES_A_TOOL =
  /\b(memory|portal|recall|commit|search|prune|add|get|update|remove|move|list|reindex|create|delete|open|read|switch|restore)_[a-z]/

/** Without the sentences that tell agents which tool to use. */
function forPeople(text: string): string {
  const left = text.split(/(?<=[.!?])\s+/).filter((sentence) => !NAMES_A_TOOL.test(sentence))
  return left.length ? left.join(' ') : text
}

async function answered(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<Response> {
  let response: Response
  try {
    response = await fetch(path, {
      method,
      headers: body === undefined ? {} : { 'content-type': 'application/json' },
      body: body === undefined ? undefined : JSON.stringify(body),
      signal,
    })
  } catch (error) {
    if (signal?.aborted) throw error
    throw new Refused('The server does not answer. Is it running?', 0, 'unavailable')
  }
  if (response.status === 401) {
    isSignedOut.value = true
    if (!hasUnsaved()) location.reload() // the server shows how to sign in
  }
  if (!response.ok) {
    const answer = await response.json().catch(() => ({}))
    throw new Refused(
      forPeople(answer.detail ?? answer.message ?? response.statusText),
      response.status,
      answer.error ?? '',
    )
  }
  return response
}

async function ask<T>(method: string, path: string, body?: unknown): Promise<T> {
  const response = await answered(method, path, body)
  return response.status === 204 ? (undefined as T) : ((await response.json().catch(() => ({}))) as T)
}

/** A file that the server makes, under the name that it gives it. */
export async function download(
  path: string,
  signal: AbortSignal,
): Promise<{ name: string; file: Blob; leftOut: number }> {
  const response = await answered('POST', path, undefined, signal)
  const name = /filename="([^"]+)"/.exec(response.headers.get('content-disposition') ?? '')?.[1] ?? 'memory.zip'
  return { name, file: await response.blob(), leftOut: Number(response.headers.get('memory-left-out')) }
}

export const get = <T>(path: string) => ask<T>('GET', path)
export const post = <T>(path: string, body: unknown = {}) => ask<T>('POST', path, body)
export const remove = <T>(path: string) => ask<T>('DELETE', path)
export const tool = <T>(name: string, args: Record<string, unknown> = {}) => post<T>(`/api/tools/${name}`, args)
export const open = <T>(ref: string) => get<T>('/api/open?ref=' + encodeURIComponent(ref))
