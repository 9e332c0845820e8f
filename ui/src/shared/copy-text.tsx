import { showError, toast } from './toast'

export function CopyText({ text, label }: { text: string; label: string }) {
  async function copy() {
    try {
      await navigator.clipboard.writeText(text)
      toast(`Copied ${label}`)
    } catch {
      showError('Your browser does not let us copy. Select the text and copy it yourself.')
    }
  }
  return (
    <div class="copy-text">
      <pre tabIndex={0}>{text}</pre>
      <button aria-label={`Copy ${label}`} onClick={copy}>
        Copy
      </button>
    </div>
  )
}
