import { randomName, toBase64 } from '../shared/base64'
import { post } from './api'
import type { Chosen } from './chosen-files'

const PIECE_BYTES = 1024 * 1024 // a request may have 4 MiB

export interface Upload {
  upload: string // its name on the server
  name: string
}

export async function upload(chosen: Chosen, onProgress: (done: number) => void): Promise<Upload> {
  const { file, name } = chosen
  const uploadName = `${randomName()}.${chosen.extension}`
  for (let offset = 0; offset === 0 || offset < file.size; offset += PIECE_BYTES) {
    const piece = new Uint8Array(await file.slice(offset, offset + PIECE_BYTES).arrayBuffer())
    await post('/api/uploads', { body: { name: uploadName, offset, data: toBase64(piece) } })
    onProgress(Math.min(1, (offset + PIECE_BYTES) / Math.max(1, file.size)))
  }
  return { upload: uploadName, name: name.slice(0, 200) }
}
