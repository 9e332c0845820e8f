// Names for the generated types that several modules use.
import type { components } from '../generated/api'

export type Schemas = components['schemas']

export type ToolName = keyof Schemas['ToolArguments']
export type ToolArguments<N extends ToolName> = Schemas['ToolArguments'][N]
export type ToolResult<N extends ToolName> = N extends 'portal_query' ? QueryResult : Schemas['ToolResults'][N]

export type Note = ToolResult<'memory_get'>
export type Entity = ToolResult<'open_nodes'>['entities'][number]
export type Relation = ToolResult<'open_nodes'>['relations'][number]
export type View = ToolResult<'portal_view'>
export type Row = Record<string, unknown>
/** As this app requests them: rows as objects. */
export type QueryResult = Omit<Schemas['ToolResults']['portal_query'], 'rows'> & { rows: Row[] }
export type Table = View['tables'][number]
export type Column = Table['columns'][number]
