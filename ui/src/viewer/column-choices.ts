// What a user changed about the columns of a file before it is imported.
import type { ToolArguments, ToolResult } from '../shared/api-types'
import type { ColumnChoices } from './files'

export type FileColumn = ToolResult<'portal_preview'>['columns'][number]
export type ColumnType = NonNullable<ToolArguments<'portal_import'>['types']>[string]

/** By the column's name in the file. */
export type ColumnEdits = Record<string, { name?: string; type?: ColumnType }>

export const COLUMN_TYPES: Record<ColumnType, string> = {
  String: 'text',
  Int64: 'whole number',
  Float64: 'number',
  Bool: 'yes or no',
  Date: 'date',
  DateTime: 'date and time',
  UUID: 'id (UUID)',
}

/** A type of the engine in words, where there are some. */
export function typeName(type: string): string {
  const simple = type.replace(/^Date32$/, 'Date').replace(/^DateTime64.*/, 'DateTime')
  return Object.hasOwn(COLUMN_TYPES, simple) ? COLUMN_TYPES[simple as ColumnType] : type
}

/** The arguments of an import: only what differs from the preview. */
export function chooseColumns(columns: FileColumn[], edits: ColumnEdits): ColumnChoices {
  const mapping: Record<string, string> = {}
  const types: Record<string, ColumnType> = {}
  for (const { name, column } of columns) {
    const edit = edits[name]
    if (edit?.name && edit.name !== column) mapping[name] = edit.name
    if (edit?.type) types[name] = edit.type
  }
  return { ...(Object.keys(mapping).length && { mapping }), ...(Object.keys(types).length && { types }) }
}
