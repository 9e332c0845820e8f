import type { Table, ToolResult } from '../shared/api-types'
import { COLUMN_TYPES, typeName, type ColumnEdits, type ColumnType, type FileColumn } from './column-choices'
import { Scroll } from '../shared/scroll'

interface Props {
  preview: ToolResult<'portal_preview'>
  known?: Table // the table that gets the rows, if it exists
  edits: ColumnEdits
  setEdits: (edits: ColumnEdits) => void
}

/** The first rows of a file. Each column can get another name, and another type where the table lacks it. */
export function ImportPreview({ preview, known, edits, setEdits }: Props) {
  const change = (name: string, edit: ColumnEdits[string]) =>
    setEdits({ ...edits, [name]: { ...edits[name], ...edit } })
  return (
    <Scroll label="Preview">
      <table>
        <thead>
          <tr>
            {preview.columns.map((column) => (
              <ColumnHead
                key={column.name}
                column={column}
                known={known}
                edit={edits[column.name]}
                onChange={(edit) => change(column.name, edit)}
              />
            ))}
          </tr>
        </thead>
        <tbody>
          {preview.rows.map((row, at) => (
            <tr key={at}>
              {row.map((value, index) => (
                <td key={index}>{value === null ? <em class="null">null</em> : value}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </Scroll>
  )
}

interface HeadProps {
  column: FileColumn
  known: Table | undefined
  edit: ColumnEdits[string] | undefined
  onChange: (edit: ColumnEdits[string]) => void
}

function ColumnHead({ column, known, edit, onChange }: HeadProps) {
  const name = edit?.name ?? column.column
  const existing = known?.columns.find((one) => one.name === name)
  return (
    <th scope="col">
      <input
        aria-label={`Name of the column ${column.name}`}
        value={name}
        onInput={(event) => onChange({ name: event.currentTarget.value.trim() })}
      />
      {existing ? (
        <span class="mut" title={existing.type}>
          {typeName(column.type)}
        </span>
      ) : (
        <select
          aria-label={`Type of the column ${column.name}`}
          title={column.type}
          value={edit?.type ?? ''}
          onChange={(event) => onChange({ type: (event.currentTarget.value || undefined) as ColumnType | undefined })}
        >
          <option value="">{typeName(column.type)}</option>
          {Object.entries(COLUMN_TYPES)
            .filter(([, shown]) => shown !== typeName(column.type))
            .map(([type, shown]) => (
              <option key={type} value={type}>
                {shown}
              </option>
            ))}
        </select>
      )}
    </th>
  )
}
