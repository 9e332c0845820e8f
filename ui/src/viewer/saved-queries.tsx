import { useState } from 'preact/hooks'
import type { Queries, SavedQuery } from '../shared/query-history'

interface Props {
  queries: Queries
  current: string // the query of the result
  href?: (sql: string) => string // where a query has an address
  onOpen: (sql: string) => void
  onSave: (name: string) => void
  onDelete: (name: string) => void
}

const MAX_NAME_CHARS = 80

/** Not a form: a sandbox may refuse to submit one. */
export function SavedQueries({ queries, current, href, onOpen, onSave, onDelete }: Props) {
  const [name, setName] = useState('')
  const save = () => {
    if (!name.trim() || !current) return
    onSave(name.trim())
    setName('')
  }
  return (
    <details class="queries">
      <summary>Saved queries and history</summary>
      {current && (
        <div class="bar">
          <input
            aria-label="Name of this query"
            placeholder="Name of this query"
            maxLength={MAX_NAME_CHARS}
            value={name}
            onInput={(event) => setName(event.currentTarget.value)}
            onKeyDown={(event) => event.key === 'Enter' && save()}
          />
          <button disabled={!name.trim()} onClick={save}>
            Save query
          </button>
        </div>
      )}
      <QueryList label="Saved queries" queries={queries.saved} href={href} onOpen={onOpen} onDelete={onDelete} />
      <QueryList label="History" queries={queries.history} href={href} onOpen={onOpen} />
      {!queries.saved.length && !queries.history.length && <p class="mut">Queries that ran here will be listed.</p>}
    </details>
  )
}

interface ListProps {
  label: string
  queries: SavedQuery[]
  href?: (sql: string) => string
  onOpen: (sql: string) => void
  onDelete?: (name: string) => void
}

function QueryList({ label, queries, href, onOpen, onDelete }: ListProps) {
  if (!queries.length) return null
  return (
    <>
      <h3>{label}</h3>
      <ul class="list" aria-label={label}>
        {queries.map(({ name, sql }) => (
          <li key={name || sql} class="bar">
            <QueryLink name={name} sql={sql} href={href} onOpen={onOpen} />
            {onDelete && (
              <button class="link" aria-label={`Delete the query ${name}`} onClick={() => onDelete(name)}>
                Delete
              </button>
            )}
          </li>
        ))}
      </ul>
    </>
  )
}

function QueryLink({ name, sql, href, onOpen }: SavedQuery & Pick<Props, 'href' | 'onOpen'>) {
  const line = sql.replace(/\s+/g, ' ')
  const shown = (
    <>
      {name && <b>{name} </b>}
      <code class="mut">{line.slice(0, 120)}</code>
    </>
  )
  if (href) return <a href={href(sql)}>{shown}</a>
  return (
    <button class="link" onClick={() => onOpen(sql)}>
      {shown}
    </button>
  )
}
