// The carrier inside a host that shows MCP Apps: JSON-RPC over postMessage, by the official client.
import {
  App,
  applyDocumentTheme,
  applyHostFonts,
  applyHostStyleVariables,
  type McpUiHostContext,
} from '@modelcontextprotocol/ext-apps'
import { signal } from '@preact/signals'
import * as z from 'zod'
import type { Bridge, View } from '../shared/bridge'
import { encoded } from './files'

z.config({ jitless: true }) // else zod probes new Function, which every host's policy reports

const PATIENCE = { timeout: 120_000 }

export const isFullscreen = signal(false)
export const canFullscreen = signal(false)
export const asked = signal<string | null>(null)
export const opened = signal<View | null>(null)
export const trouble = signal<string | null>(null)

type Answer = Awaited<ReturnType<App['callServerTool']>>

function unwrapped<T>(answer: Answer): T {
  if (!answer.isError) return answer.structuredContent as T
  const told = answer.structuredContent as { message?: string } | undefined
  const texts = answer.content?.map((part) => ('text' in part ? String(part.text) : ''))
  throw new Error(told?.message ?? (texts?.join('\n') || 'The tool failed.'))
}

function adapt(context: Partial<McpUiHostContext>): void {
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
  // Before connect: the first notifications come at once.
  app.ontoolinput = (input) => {
    asked.value = String(input.arguments?.portalUri ?? '')
  }
  app.ontoolresult = (answer) => {
    try {
      opened.value = unwrapped<View>(answer)
    } catch (error) {
      trouble.value = (error as Error).message
    }
  }
  app.ontoolcancelled = () => {
    trouble.value = 'This was cancelled. Ask for the portal again.'
  }
  app.onhostcontextchanged = adapt
  app.onteardown = async () => ({})
  await app.connect()
  const context = app.getHostContext() ?? {}
  adapt(context)
  const inSpec = context.toolInfo?.tool.name.startsWith('memory/') // --portal-names spec
  const named = (tool: string) => (inSpec ? tool.replace(/^portal_(?!upload|download)/, 'memory/') : tool)
  return {
    call: async (tool, args) => unwrapped(await app.callServerTool({ name: named(tool), arguments: args }, PATIENCE)),
    save: (name, type, bytes) => save(app, name, type, bytes),
    async setFullscreen(on) {
      const now = await app.requestDisplayMode({ mode: on ? 'fullscreen' : 'inline' })
      isFullscreen.value = now.mode === 'fullscreen'
    },
  }
}

async function save(app: App, name: string, type: string, bytes: Uint8Array<ArrayBuffer>): Promise<string> {
  const isText = /json|csv/.test(type)
  const text = isText ? new TextDecoder().decode(bytes) : ''
  if (app.getHostCapabilities()?.downloadFile) {
    const content = isText ? { text } : { blob: encoded(bytes) }
    const answer = await app.downloadFile(
      { contents: [{ type: 'resource', resource: { uri: `file:///${name}`, mimeType: type, ...content } }] },
      PATIENCE,
    )
    if (answer.isError) throw new Error('The host did not save the file.')
    return `Saved ${name}.`
  }
  if (isText) {
    try {
      await navigator.clipboard.writeText(text)
      return `This host saves no files: ${name} is in the clipboard.`
    } catch {
      // no permission: the sentence below
    }
  }
  throw new Error("This host saves no files. Export from the server's web app, or ask for portal_export.")
}
