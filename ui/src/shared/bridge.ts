// One viewer, two carriers: a host that shows MCP Apps (viewer/host.ts) or this server's web app (app/bridge.ts).

export interface Bridge {
  /** Call a tool and get its structured answer. Rejects with the server's own words. */
  call: <T>(tool: string, args: Record<string, unknown>) => Promise<T>
  /** Give a file to the person. Resolves to a sentence that says what became of it. */
  save: (name: string, type: string, bytes: Uint8Array<ArrayBuffer>) => Promise<string>
  /** In a host that can show a page larger. */
  setFullscreen?: (on: boolean) => Promise<void>
}

export interface Column {
  name: string
  type: string
  primary: boolean
}

export interface Table {
  name: string
  rows: number
  bytes: number
  columns: Column[]
}

export interface View {
  portalUri: string
  tables: Table[]
  stats: { tables: number; rows: number; bytes: number; usage: Usage }
  name?: string // what people call it
  description?: string
}

export interface Usage {
  reads: number
  writes: number
  lastRead: string | null
  lastWrite: string | null
}

export type Row = Record<string, unknown>

export interface Result {
  columns: { name: string; type: string }[]
  rows: Row[]
  rowCount: number
  truncated: boolean
  elapsedMs: number
}
