// The REST API of this server, as the signed-in user. Paths, parameters and results have the generated types.
import type { paths } from '../generated/api'
import type { Schemas, ToolArguments, ToolName, ToolResult } from '../shared/api-types'
import { hasUnsaved } from '../shared/draft'
import { isSignedOut } from './changes'
import { apiUrl, type QueryValue } from './urls'

export class ApiError extends Error {
  constructor(
    message: string,
    readonly status: number,
    readonly code: string,
  ) {
    super(message)
  }
}

type Method = 'get' | 'post' | 'delete'
type PathWith<M extends Method> = {
  [P in keyof paths]: paths[P] extends Record<M, { responses: unknown }> ? P : never
}[keyof paths]
type Body<C> = C extends { content: { 'application/json': infer B } } ? B : undefined
type Result<O> = O extends { responses: infer R } ? Body<R[keyof R]> : never
type Field<N extends string, V> = [V] extends [undefined]
  ? unknown
  : undefined extends V
    ? Partial<Record<N, V>>
    : Record<N, V>
type Options<O> = O extends { parameters: { path?: infer P; query?: infer Q } }
  ? Field<'path', P> & Field<'query', Q> & (O extends { requestBody: infer B } ? Field<'body', Body<B>> : unknown)
  : unknown
type Rest<O> = object extends Options<O> ? [options?: Options<O>] : [options: Options<O>]

interface AnyOptions {
  path?: Record<string, string>
  query?: Record<string, QueryValue>
  body?: unknown
}

async function send(method: Method, url: string, body?: unknown, signal?: AbortSignal): Promise<Response> {
  let response: Response
  try {
    response = await fetch(url, {
      method: method.toUpperCase(),
      headers: body === undefined ? {} : { 'content-type': 'application/json' },
      body: body === undefined ? undefined : JSON.stringify(body),
      signal,
    })
  } catch (error) {
    if (signal?.aborted) throw error
    throw new ApiError('The server does not answer. Is it running?', 0, 'unavailable')
  }
  if (response.status === 401) {
    isSignedOut.value = true
    if (!hasUnsaved()) location.reload() // the server shows the sign-in page
  }
  if (!response.ok) {
    const problem = (await response.json().catch(() => ({}))) as Partial<Schemas['Problem']>
    throw new ApiError(problem.detail ?? response.statusText, response.status, problem.error ?? '')
  }
  return response
}

async function request<T>(method: Method, template: string, options: AnyOptions = {}): Promise<T> {
  const response = await send(method, apiUrl(template, options.path, options.query), options.body)
  return response.status === 204 ? (undefined as T) : ((await response.json().catch(() => ({}))) as T)
}

export const get = <P extends PathWith<'get'>>(path: P, ...[options]: Rest<paths[P]['get']>) =>
  request<Result<paths[P]['get']>>('get', path, options as AnyOptions)
export const post = <P extends PathWith<'post'>>(path: P, ...[options]: Rest<paths[P]['post']>) =>
  request<Result<paths[P]['post']>>('post', path, options as AnyOptions)
export const remove = <P extends PathWith<'delete'>>(path: P, ...[options]: Rest<paths[P]['delete']>) =>
  request<Result<paths[P]['delete']>>('delete', path, options)

export const tool = <N extends ToolName>(name: N, args: ToolArguments<N>) =>
  request<ToolResult<N>>('post', '/api/tools/{name}', { path: { name }, body: args })

/** A file that the server makes, under the name that it gives it. */
export async function download(
  path: '/api/export' | '/api/backup',
  signal: AbortSignal,
): Promise<{ name: string; file: Blob; omittedCount: number }> {
  const response = await send('post', path, undefined, signal)
  const name = /filename="([^"]+)"/.exec(response.headers.get('content-disposition') ?? '')?.[1] ?? 'memory.zip'
  return { name, file: await response.blob(), omittedCount: Number(response.headers.get('memory-left-out')) }
}
