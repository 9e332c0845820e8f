// The viewer reaches its server through a bridge: a host that shows MCP Apps (viewer/host.ts) or the web app
// (app/bridge.ts).
import type { ToolArguments, ToolName, ToolResult } from './api-types'

export interface Bridge {
  /** Call a tool. Rejects with the server's message. */
  call: <N extends ToolName>(tool: N, args: ToolArguments<N>) => Promise<ToolResult<N>>
  /** Save a file for the user. Resolves to a sentence for the user. */
  save: (name: string, type: string, bytes: Uint8Array<ArrayBuffer>) => Promise<string>
  /** Only where the page may store something in the browser. */
  storage?: Pick<Storage, 'getItem' | 'setItem'>
  /** Only in a host that can show a page larger. */
  setFullscreen?: (on: boolean) => Promise<void>
}
