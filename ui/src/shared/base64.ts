const MAX_ARGUMENTS = 0x8000 // of a function call

export function toBase64(bytes: Uint8Array): string {
  let text = ''
  for (let start = 0; start < bytes.length; start += MAX_ARGUMENTS) {
    text += String.fromCharCode(...bytes.subarray(start, start + MAX_ARGUMENTS))
  }
  return btoa(text)
}

export function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0))
}

/** For a file on the server. */
export const randomName = () =>
  Array.from(crypto.getRandomValues(new Uint32Array(3)), (part) => part.toString(36)).join('')
