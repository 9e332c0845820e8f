import { decode, href } from './urls'

export const noteRef = (id: string) => `memory://note/${id}`

/** The id of a note; undefined for any other memory. */
export const noteId = (ref: string) => /^memory:\/\/note\/(.+)$/.exec(ref)?.[1]

export const entityRef = (project: string, entity: string) =>
  `graph:${encodeURIComponent(project)}/${encodeURIComponent(entity)}`

export const fileRef = (store: string, path: string) =>
  `stores:${encodeURIComponent(store)}/${path.split('/').map(encodeURIComponent).join('/')}`

export const isConversation = (ref: string) => ref.startsWith('conversation:')

/** The title of a memory; that of a table without the scheme of its address. */
export const shownTitle = ({ family, title }: { family: string; title: string }) =>
  family === 'portals' ? title.replace(/^mem:\/\//, '') : title

/** The page that shows what a `ref` of a search hit names; of a table, the rows with the words of the search. */
export function refHref(ref: string, search = ''): string {
  const note = noteId(ref)
  if (note) return href(['memories', 'note', note])
  const file = /^stores:([^/]+)\/(.+)$/.exec(ref)
  if (file) return href(['stores', file[1]!, ...decode(file[2]!).split('/')], { file: '1' })
  const portal = /^mem:\/\/([^/]+)\/([^/?]+)\/?([^?]*)/.exec(ref)
  if (portal) return href(['portals', portal[1]!, portal[2]!], { table: portal[3], search: portal[3] && search })
  if (isConversation(ref)) return href(['conversations'], { ref })
  return href(['memories', 'open'], { ref })
}
