import { useEffect, useState } from 'preact/hooks'
import type { Schemas } from '../../shared/api-types'
import { Confirm } from '../../shared/confirm'
import { ago, bytes, number, plural } from '../../shared/format'
import { showError } from '../../shared/toast'
import { get, post } from '../api'
import { chosenFile, droppedFiles, filesOf } from '../chosen-files'
import { Await, useMinuteTick, useResource } from '../resource'
import { href } from '../urls'
import { upload, type Upload } from '../upload'
import type { ZipEntry } from '../zip'
import { Downloads } from './downloads'
import { FORMAT_NAMES, FormatChoice, ImportCheck, type Format } from './import-check'

type Job = Schemas['JobShown']
type ImportRecord = Schemas['ImportShown']

const IMPORT_CHANGES = { topics: ['imports'] }
const GUIDES: [string, string][] = [
  [
    'A folder of markdown, an Obsidian vault',
    'Drop the folder. Each file becomes a note, with its tags and [[links]].',
  ],
  ['ChatGPT', 'Settings, Data controls, Export data. Drop the zip that you get by e-mail.'],
  ['Claude', 'Settings, Privacy, Export data. Drop the zip that you get by e-mail.'],
  ['A list of memories', 'Ask your assistant to list every memory, one per line, and drop it as a text file.'],
  ['server-memory', 'Drop its memory.jsonl. It becomes a graph.'],
  ['Memory MCP itself', 'Drop the zip of “Your memories” below, or the folder that memory-mcp export made.'],
  ['mem0, OpenMemory, mcp-memory-service, basic-memory', 'Drop the export, the database file or the folder.'],
]

export default function Import() {
  const me = useResource(() => get('/api/me'), [], {})
  const resource = useResource(() => get('/api/imports'), [], IMPORT_CHANGES)
  const canWrite = me.value?.scopes.includes('write_memory') ?? true
  useMinuteTick()
  return (
    <>
      <h1>Import and export</h1>
      <Await resource={resource} keepStale>
        {({ job, imports }) => (
          <>
            {canWrite && <ImportCard job={job} reload={resource.reload} />}
            {imports.length > 0 && <History imports={imports} job={job} reload={resource.reload} />}
          </>
        )}
      </Await>
      <Downloads canBackUp={me.value?.may_back_up ?? false} />
    </>
  )
}

interface ImportCardProps {
  job: Job | null
  reload: () => void
}

/** Choose a file, see what will happen, import it: one after the other. */
function ImportCard({ job, reload }: ImportCardProps) {
  const [uploaded, setUploaded] = useState<Upload | null>(null)
  const [progress, setProgress] = useState<{ doing: string; done: number } | null>(null)
  const isRunning = job?.state === 'running'
  const start = async (current: Upload, isDryRun: boolean, format?: Format, into?: string) => {
    try {
      await post('/api/imports', {
        body: { upload: current.upload, name: current.name, dry_run: isDryRun, format, into: into || undefined },
      })
    } catch (error) {
      showError(error)
    }
    reload()
  }
  const choose = async (entries: ZipEntry[] | Promise<ZipEntry[]>) => {
    try {
      setUploaded(null)
      setProgress({ doing: 'Reading the folder', done: 0 })
      const chosen = await chosenFile(await entries, (done) => setProgress({ doing: 'Packing the folder', done }))
      const current = await upload(chosen, (done) => setProgress({ doing: `Uploading ${chosen.name}`, done }))
      setUploaded(current)
      await start(current, true)
    } catch (error) {
      showError(error)
    } finally {
      setProgress(null)
    }
  }
  const isChecked = uploaded && job?.kind === 'check' && job.state === 'done' && job.name === uploaded.name
  const isRefused = uploaded && job?.kind === 'check' && job.state === 'failed' && job.name === uploaded.name
  return (
    <section class="card stack" aria-label="Import">
      <h2>Bring in what you have</h2>
      {progress ? (
        <Progress doing={progress.doing} done={progress.done} total={1} />
      ) : isRunning ? (
        <RunningJob job={job} />
      ) : isChecked ? (
        <ImportCheck
          key={job.id}
          report={job.report!}
          name={job.name}
          onCheck={(format, into) => start(uploaded, true, format, into)}
          onImport={(format, into) => start(uploaded, false, format, into)}
          onCancel={() => setUploaded(null)}
        />
      ) : (
        <>
          <Outcome job={job} />
          {isRefused && <FormatChoice format="" onChoose={(format) => start(uploaded, true, format)} />}
          <Chooser onChoose={choose} />
        </>
      )}
    </section>
  )
}

/** What the last job came to. */
function Outcome({ job }: { job: Job | null }) {
  if (!job || job.state === 'running') return null
  if (job.state === 'failed')
    return (
      <p role="alert">
        {job.name}: {job.error}
      </p>
    )
  if (job.state === 'stopped') return <p role="status">Stopped. What was written by then is listed below.</p>
  if (job.kind === 'undo' && job.undone)
    return (
      <p role="status">
        The import of {job.name} is undone: {plural(job.undone.removed, 'memory is', 'memories are')} removed
        {job.undone.kept ? `, ${number(job.undone.kept)} stay because they were changed since` : ''}.
      </p>
    )
  if (job.kind !== 'import' || !job.report) return null
  return (
    <p role="status">
      {job.name} is imported: {plural(job.report.imported, 'new memory', 'new memories')}
      {job.report.updated ? `, ${number(job.report.updated)} updated` : ''}.{' '}
      <a href={destinationHref(job.report)}>See them</a>
    </p>
  )
}

function destinationHref({ family, into }: { family: string; into: string }): string {
  if (family === 'all') return '/memories'
  if (family === 'notes') return href(['memories'], { family: 'notes', namespace: into, source: 'import' })
  return family === 'stores' ? href(['stores', into]) : href(['graph'], { project: into })
}

function Chooser({ onChoose }: { onChoose: (entries: ZipEntry[] | Promise<ZipEntry[]>) => void }) {
  const [isOver, setOver] = useState(false)
  const onDrop = (event: DragEvent) => {
    event.preventDefault()
    setOver(false)
    if (event.dataTransfer) onChoose(droppedFiles(event.dataTransfer))
  }
  const onDragOver = (event: DragEvent) => {
    event.preventDefault()
    setOver(true)
  }
  return (
    <>
      <div
        class={isOver ? 'drop over' : 'drop'}
        onDragOver={onDragOver}
        onDragLeave={() => setOver(false)}
        onDrop={onDrop}
      >
        <p>Drop a folder or a file here. You see what will happen before anything is stored.</p>
        <div class="bar">
          <FileButton label="Choose a file" isFolder={false} onChoose={onChoose} />
          <FileButton label="Choose a folder" isFolder onChoose={onChoose} />
        </div>
      </div>
      <details>
        <summary>What can be imported, and where you get it</summary>
        <dl class="guides">
          {GUIDES.map(([what, how]) => (
            <div key={what}>
              <dt>{what}</dt>
              <dd>{how}</dd>
            </div>
          ))}
        </dl>
      </details>
    </>
  )
}

interface FileButtonProps {
  label: string
  isFolder: boolean
  onChoose: (entries: ZipEntry[]) => void
}

function FileButton({ label, isFolder, onChoose }: FileButtonProps) {
  return (
    <label class="button">
      {label}
      <input
        class="hidden-input"
        type="file"
        multiple
        {...(isFolder ? { webkitdirectory: true } : {})}
        onChange={(event) => {
          const { files } = event.currentTarget
          if (files?.length) onChoose(filesOf(files))
        }}
      />
    </label>
  )
}

function Progress({ doing, done, total }: { doing: string; done: number; total: number | null }) {
  return (
    <label>
      {doing}… <progress max={total ?? undefined} value={total ? done : undefined} aria-label={doing} />
    </label>
  )
}

function RunningJob({ job }: { job: Job }) {
  const [isStopping, setStopping] = useState(false)
  useEffect(() => setStopping(false), [job.id])
  const stop = () => {
    setStopping(true)
    post('/api/imports/stop').catch(showError)
  }
  const show = job.counts_bytes ? bytes : number
  return (
    <div class="bar" role="status">
      <Progress doing={job.doing} done={job.done} total={job.total} />
      {job.total !== null && (
        <span>
          {show(job.done)} of {show(job.total)}
        </span>
      )}
      <button disabled={isStopping} onClick={stop}>
        {isStopping ? 'Stopping…' : 'Stop'}
      </button>
    </div>
  )
}

const STATES: Record<ImportRecord['state'], string> = { unfinished: 'not finished', done: '', undone: 'undone' }

function History({ imports, job, reload }: ImportCardProps & { imports: ImportRecord[] }) {
  const [asked, setAsked] = useState<ImportRecord | null>(null)
  const undo = async (id: string) => {
    try {
      await post('/api/imports/{import_id}/undo', { path: { import_id: id } })
    } catch (error) {
      showError(error)
    }
    reload()
  }
  return (
    <section class="card" aria-label="Imports">
      <h2>Imports</h2>
      <ul class="list">
        {imports.map((one) => (
          <li key={one.id} class="bar">
            <span>
              <b>{one.source}</b>, {FORMAT_NAMES[one.format]}
              <br />
              <span class="mut">
                {[
                  ago(one.started_at),
                  plural(one.imported, 'memory', 'memories'),
                  one.updated ? `${number(one.updated)} updated` : '',
                  STATES[one.state],
                ]
                  .filter(Boolean)
                  .join(' · ')}
              </span>
            </span>
            <span class="space" />
            {one.state !== 'undone' && <a href={destinationHref(one)}>See them</a>}
            {one.state !== 'undone' && (
              <button disabled={job?.state === 'running'} onClick={() => setAsked(one)}>
                Undo
              </button>
            )}
          </li>
        ))}
      </ul>
      {asked && (
        <Confirm
          title={`Undo the import of ${asked.source}?`}
          text={
            'What it added is deleted, and what it updated gets its former text. Memories that were changed since ' +
            (asked.family === 'all'
              ? 'stay. The notes are archived and can be restored on the page Memories.'
              : 'stay. To get them back, import the file again.')
          }
          cancelLabel="Keep them"
          confirmLabel="Undo the import"
          onConfirm={() => undo(asked.id)}
          onClose={() => setAsked(null)}
        />
      )}
    </section>
  )
}
