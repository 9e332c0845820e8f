import { useState } from 'preact/hooks'
import type { Schemas } from '../../shared/api-types'
import { number, plural } from '../../shared/format'

type Report = Schemas['ImportReport']
export type Format = Report['format']

export const FORMAT_NAMES: Record<Format, string> = {
  markdown: 'a folder of markdown, as notes',
  'basic-memory': 'a folder of markdown, as files of a store (basic-memory)',
  'anthropic-memory': "the folder of Anthropic's memory tool",
  chatgpt: 'an export or a list of ChatGPT',
  claude: 'an export or a list of Claude',
  'server-memory': 'a graph of server-memory',
  'mcp-memory-service': 'a file of mcp-memory-service',
  mem0: 'an export of mem0 or OpenMemory',
  'memory-mcp': 'an export of Memory MCP, with every kind of memory',
}
const KINDS: Record<Report['family'], [one: string, many: string, into: string]> = {
  notes: ['note', 'notes', 'Into the namespace'],
  stores: ['file', 'files', 'Into the store'],
  graph: ['entity or relation', 'entities and relations', 'Into the project'],
  all: ['memory', 'memories', ''],
}

interface Props {
  report: Report
  name: string
  onCheck: (format: Format, into: string) => void
  onImport: (format: Format, into: string) => void
  onCancel: () => void
}

/** What an import will do, before anything is stored. */
export function ImportCheck({ report, name, onCheck, onImport, onCancel }: Props) {
  const [into, setInto] = useState(report.into)
  const [one, many, intoLabel] = KINDS[report.family]
  const count = report.imported + report.updated
  const lines: [number, string, string, isItem?: boolean][] = [
    [report.imported, 'will be added', 'will be added'],
    [report.updated, 'has changed there, and will be updated', 'have changed there, and will be updated'],
    [report.skipped, 'is here already', 'are here already'],
    [report.kept, 'differs here, and stays as it is', 'differ here, and stay as they are'],
    [report.refused, 'cannot be imported', 'cannot be imported', true],
    [report.left_out, 'is left out', 'are left out', true], // such as a picture
  ]
  const isElsewhere = into.trim() !== report.into
  return (
    <>
      <p>
        <b>{name}</b> is {FORMAT_NAMES[report.format]}. Nothing is stored yet.
      </p>
      <ul aria-label="What will happen">
        {lines.map(
          ([some, effectOnOne, effect, isItem]) =>
            some > 0 && (
              <li key={effect}>
                <b>{number(some)}</b>{' '}
                {some === 1 ? `${isItem ? 'item' : one} ${effectOnOne}` : `${isItem ? 'items' : many} ${effect}`}
              </li>
            ),
        )}
        {!lines.some(([some]) => some) && <li>There is nothing in it.</li>}
      </ul>
      {report.family === 'all' && <NewOfEachKind details={report.details} />}
      {report.samples.length > 0 && (
        <p class="mut">
          Such as: {report.samples.map((text) => `“${text}”`).join(', ')}
          {report.read > report.samples.length ? ' …' : ''}
        </p>
      )}
      <Problems report={report} isOpen={!count} />
      <div class="bar">
        {intoLabel && (
          <label>
            {intoLabel} <input value={into} maxLength={200} onInput={(event) => setInto(event.currentTarget.value)} />
          </label>
        )}
        <FormatChoice format={report.format} onChoose={(format) => onCheck(format, '')} />
      </div>
      <div class="bar">
        {isElsewhere ? (
          <button class="primary" onClick={() => onCheck(report.format, into.trim())}>
            Check again
          </button>
        ) : (
          <button class="primary" disabled={!count} onClick={() => onImport(report.format, report.into)}>
            Import {plural(count, one, many)}
          </button>
        )}
        <button onClick={onCancel}>Choose another file</button>
      </div>
    </>
  )
}

const singular = (kinds: string) => kinds.replace(/ies$/, 'y').replace(/s$/, '')

/** What is new in an export of Memory MCP. */
function NewOfEachKind({ details }: { details: Report['details'] }) {
  const shown = Object.entries(details).map(([kinds, count]) => plural(count, singular(kinds), kinds))
  return shown.length ? <p class="mut">New: {shown.join(', ')}.</p> : null
}

interface FormatChoiceProps {
  format: Format | ''
  onChoose: (format: Format) => void
}

export function FormatChoice({ format, onChoose }: FormatChoiceProps) {
  return (
    <label>
      Read as{' '}
      <select value={format} onChange={(event) => onChoose(event.currentTarget.value as Format)}>
        {!format && <option value="">choose a format</option>}
        {Object.entries(FORMAT_NAMES).map(([name, label]) => (
          <option key={name} value={name}>
            {label}
          </option>
        ))}
      </select>
    </label>
  )
}

function Problems({ report, isOpen }: { report: Report; isOpen: boolean }) {
  if (!report.problems.length) return null
  return (
    <details open={isOpen}>
      <summary>What is not imported, and why</summary>
      <ul>
        {report.problems.map(({ where, why }, index) => (
          <li key={index}>
            {where}: {why}
          </li>
        ))}
      </ul>
    </details>
  )
}
