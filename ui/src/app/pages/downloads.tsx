import { useEffect, useRef, useState } from 'preact/hooks'
import { bytes, plural } from '../../shared/format'
import { showError, toast } from '../../shared/toast'
import { download } from '../api'
import { saveFile } from '../bridge'

type Kind = 'export' | 'backup'

/** Leaving the page cancels a download, on the server too. */
export function Downloads({ canBackUp }: { canBackUp: boolean }) {
  const [pending, setPending] = useState<Kind | null>(null)
  const controller = useRef<AbortController | null>(null)
  useEffect(() => () => controller.current?.abort(), [])
  async function downloadFile(kind: Kind) {
    const current = new AbortController()
    controller.current = current
    setPending(kind)
    try {
      const { name, file, omittedCount } = await download(`/api/${kind}`, current.signal)
      saveFile(name, file)
      const size = bytes(file.size)
      if (omittedCount) {
        showError(`${name} (${size}) lacks ${plural(omittedCount, 'item')} that could not be read. It lists them.`)
      } else toast(`${name} is downloaded (${size})`)
    } catch (error) {
      if (current.signal.aborted) toast('Cancelled. Nothing was saved.')
      else showError(error)
    }
    setPending(null)
  }
  return (
    <section class="card downloads">
      <h2>Export</h2>
      <p>
        All your memories as markdown, JSON lines, Parquet and CSV in one zip. Drop it above to bring it back, here or
        on another computer; in a terminal, <code>memory-mcp import memory-mcp FILE</code> does the same.
      </p>
      <div class="bar">
        <button disabled={pending !== null} onClick={() => downloadFile('export')}>
          Download my memories
        </button>
      </div>
      {canBackUp && (
        <>
          <p>
            A backup of the whole server: the memories of every user, with former versions and the hashes of keys and
            passwords. Keep it safe. <code>memory-mcp restore FILE</code> restores it.
          </p>
          <div class="bar">
            <button disabled={pending !== null} onClick={() => downloadFile('backup')}>
              Download a backup of everything
            </button>
          </div>
        </>
      )}
      <p role="status">
        {pending && (
          <>
            <progress aria-label="Creating the file" />{' '}
            {pending === 'backup' ? 'Creating the backup…' : 'Packing your memories…'}{' '}
            <button class="link" onClick={() => controller.current?.abort()}>
              Cancel
            </button>
          </>
        )}
      </p>
    </section>
  )
}
