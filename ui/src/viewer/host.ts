// The bridge inside a host that shows MCP Apps: JSON-RPC over postMessage, by the official client.
import {
  App,
  applyDocumentTheme,
  applyHostFonts,
  applyHostStyleVariables,
  type McpUiHostContext,
} from '@modelcontextprotocol/ext-apps'
import { signal } from '@preact/signals'
import * as z from 'zod'
import type { ToolArguments, ToolName, ToolResult, View } from '../shared/api-types'
import type { Bridge } from '../shared/bridge'
import { errorMessage } from '../shared/format'
import { toBase64 } from '../shared/base64'

z.config({ jitless: true }) // else zod probes new Function, which every host's policy reports

const TIMEOUT = { timeout: 120_000 }

export const isFullscreen = signal(false)
export const canFullscreen = signal(false)
export const requestedUri = signal<string | null>(null)
export const openedView = signal<View | null>(null)
export const hostError = signal<string | null>(null)

type ToolAnswer = Awaited<ReturnType<App['callServerTool']>>

/** The structured content of a result. Throws the server's message if the tool failed. */
function unwrap(result: ToolAnswer): unknown {
  if (!result.isError) return result.structuredContent
  const failure = result.structuredContent as { message?: string } | undefined
  const texts = result.content.map((part) => ('text' in part ? part.text : ''))
  throw new Error(failure?.message ?? (texts.join('\n') || 'The tool failed.'))
}

function applyContext(context: Partial<McpUiHostContext>): void {
  if (context.theme) applyDocumentTheme(context.theme)
  if (context.styles?.variables) applyHostStyleVariables(context.styles.variables)
  if (context.styles?.css?.fonts) applyHostFonts(context.styles.css.fonts)
  if (context.displayMode) isFullscreen.value = context.displayMode === 'fullscreen'
  if (context.availableDisplayModes) canFullscreen.value = context.availableDisplayModes.includes('fullscreen')
}

export async function connect(): Promise<Bridge> {
  const app = new App(
    { name: 'memory-portal-viewer', version: '1' },
    { availableDisplayModes: ['inline', 'fullscreen'] },
    { autoResize: true },
  )
  // Before connect: the first notifications follow it at once.
  app.addEventListener('toolinput', (input) => {
    requestedUri.value = (input.arguments?.portalUri as string | undefined) ?? ''
  })
  app.addEventListener('toolresult', (result) => {
    try {
      openedView.value = unwrap(result) as View
    } catch (error) {
      hostError.value = errorMessage(error)
    }
  })
  app.addEventListener('toolcancelled', () => {
    hostError.value = 'The call was cancelled. Open the portal again.'
  })
  app.addEventListener('hostcontextchanged', applyContext)
  app.onteardown = () => Promise.resolve({})
  await app.connect()
  const context = app.getHostContext() ?? {}
  applyContext(context)
  const usesSpecNames = context.toolInfo?.tool.name.startsWith('memory/') // --portal-names spec
  const toolName = (tool: string) =>
    usesSpecNames ? tool.replace(/^portal_(?!upload|download|preview)/, 'memory/') : tool
  return {
    async call<N extends ToolName>(tool: N, args: ToolArguments<N>) {
      const request = { name: toolName(tool), arguments: args as Record<string, unknown> }
      return unwrap(await app.callServerTool(request, TIMEOUT)) as ToolResult<N>
    },
    save: (name, type, bytes) => save(app, name, type, bytes),
    async setFullscreen(on) {
      const { mode } = await app.requestDisplayMode({ mode: on ? 'fullscreen' : 'inline' })
      isFullscreen.value = mode === 'fullscreen'
    },
  }
}

async function save(app: App, name: string, type: string, bytes: Uint8Array<ArrayBuffer>): Promise<string> {
  const isText = /json|csv/.test(type)
  const text = isText ? new TextDecoder().decode(bytes) : ''
  if (app.getHostCapabilities()?.downloadFile) {
    const content = isText ? { text } : { blob: toBase64(bytes) }
    const result = await app.downloadFile(
      { contents: [{ type: 'resource', resource: { uri: `file:///${name}`, mimeType: type, ...content } }] },
      TIMEOUT,
    )
    if (result.isError) throw new Error('The host did not save the file.')
    return `Saved ${name}.`
  }
  if (isText) {
    try {
      await navigator.clipboard.writeText(text)
      return `This host saves no files: ${name} is copied to the clipboard.`
    } catch {
      // no permission for the clipboard: fail with the message below
    }
  }
  throw new Error("This host saves no files. Export from the server's web app, or with portal_export.")
}
