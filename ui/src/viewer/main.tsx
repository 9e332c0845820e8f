import { render } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import type { Bridge } from '../shared/bridge'
import { showInvisibleCharacters } from '../shared/invisible'
import '../shared/style.css'
import { Toasts } from '../shared/toast'
import { errorMessage } from '../shared/format'
import { canFullscreen, connect, hostError, isFullscreen, openedView, requestedUri } from './host'
import { Viewer } from './viewer'
import './viewer.css'

function Boot() {
  const [bridge, setBridge] = useState<Bridge | null>(null)
  useEffect(() => {
    if (window.parent === window)
      hostError.value = 'This page is for hosts that show MCP Apps. In a browser, open the page Portals of the web app.'
    else connect().then(setBridge, (error: unknown) => (hostError.value = errorMessage(error)))
  }, [])
  if (hostError.value)
    return (
      <main>
        <p class="empty" role="alert">
          {hostError.value}
        </p>
      </main>
    )
  if (!bridge || !openedView.value) {
    return (
      <main class="empty" aria-busy="true">
        <h1 class="hidden">Memory portal</h1>
        {requestedUri.value ? `Opening ${requestedUri.value}…` : 'Connecting…'}
        <div class="skeleton" />
        <div class="skeleton" />
      </main>
    )
  }
  return (
    <main class={isFullscreen.value ? 'fullscreen' : 'inline'}>
      <Viewer
        bridge={bridge}
        initialView={openedView.value}
        isPaged={!isFullscreen.value}
        isFullscreen={canFullscreen.value ? isFullscreen.value : undefined}
      />
      <Toasts />
    </main>
  )
}

showInvisibleCharacters()
render(<Boot />, document.getElementById('app')!)
