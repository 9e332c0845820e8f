import { decoded, to } from './router'

export const noteRef = (id: string) => `memory://note/${id}`

/** Where in the app something is shown that a search found. */
export function address(ref: string): string {
  const note = /^memory:\/\/note\/(.+)$/.exec(ref)
  if (note) return to(['memories', 'note', note[1]!])
  const file = /^stores:([^/]+)\/(.+)$/.exec(ref)
  if (file) return to(['stores', file[1]!, ...decoded(file[2]!).split('/')], { file: '1' })
  const portal = /^mem:\/\/([^/]+)\/([^/?]+)\/?([^?]*)/.exec(ref)
  if (portal) return to(['portals', portal[1]!, portal[2]!], { table: portal[3] })
  return to(['memories', 'open'], { ref })
}

/** A line of what was written last. */
export interface Write {
  family: string
  ref: string
  title: string
  at: string
}
