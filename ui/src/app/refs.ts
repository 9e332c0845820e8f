import { decode, href } from './urls'

export const noteRef = (id: string) => `memory://note/${id}`

export const entityRef = (project: string, entity: string) =>
  `graph:${encodeURIComponent(project)}/${encodeURIComponent(entity)}`

export const isConversation = (ref: string) => ref.startsWith('conversation:')

/** The page that shows what a `ref` of a search hit names. */
export function refHref(ref: string): string {
  const note = /^memory:\/\/note\/(.+)$/.exec(ref)
  if (note) return href(['memories', 'note', note[1]!])
  const file = /^stores:([^/]+)\/(.+)$/.exec(ref)
  if (file) return href(['stores', file[1]!, ...decode(file[2]!).split('/')], { file: '1' })
  const portal = /^mem:\/\/([^/]+)\/([^/?]+)\/?([^?]*)/.exec(ref)
  if (portal) return href(['portals', portal[1]!, portal[2]!], { table: portal[3] })
  if (isConversation(ref)) return href(['conversations'], { ref })
  return href(['memories', 'open'], { ref })
}
