import { render } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import type { Bridge } from '../shared/bridge'
import '../shared/style.css'
import { Toasts } from '../shared/toast'
import { message } from '../shared/words'
import { asked, canFullscreen, connect, isFullscreen, opened, trouble } from './host'
import { Viewer } from './viewer'
import './viewer.css'

function Boot() {
  const [bridge, setBridge] = useState<Bridge | null>(null)
  useEffect(() => {
    if (window.parent === window)
      trouble.value =
        'This page belongs into a host that shows MCP Apps. In a browser, open the web app and its page Portals.'
    else connect().then(setBridge, (error) => (trouble.value = message(error)))
  }, [])
  if (trouble.value)
    return (
      <main>
        <p class="empty" role="alert">
          {trouble.value}
        </p>
      </main>
    )
  if (!bridge || !opened.value) {
    return (
      <main class="empty" aria-busy="true">
        <h1 class="hidden">Memory portal</h1>
        {asked.value ? `Opening ${asked.value}…` : 'Connecting…'}
        <div class="skeleton" />
        <div class="skeleton" />
      </main>
    )
  }
  return (
    <main class={isFullscreen.value ? 'fullscreen' : 'inline'}>
      <Viewer
        bridge={bridge}
        first={opened.value}
        pages={!isFullscreen.value}
        fullscreen={canFullscreen.value ? isFullscreen.value : undefined}
      />
      <Toasts />
    </main>
  )
}

render(<Boot />, document.getElementById('app')!)
