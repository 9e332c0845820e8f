// What agents and people wrote last: by day, then by who wrote it, with the text.
import { useState } from 'preact/hooks'
import { localClock, number } from '../../shared/format'
import type { Schemas } from '../../shared/api-types'
import { kindLabel } from '../families'
import { plainText } from '../plain-text'
import { isConversation, refHref, shownTitle } from '../refs'
import { href } from '../urls'
import { byDayAndAuthor, dayLabel, type Write } from '../writes'

const MAX_SHOWN = 5 // of an author on a day, before "more"

interface Props {
  showEarlier: (() => void) | undefined // if there are more
}

export function RecentWrites({ writes, incomplete, showEarlier }: Schemas['WritesShown'] & Props) {
  return (
    <section class="writes" aria-label="Recent writes">
      <h2>What was learned</h2>
      {byDayAndAuthor(writes).map(([day, authors]) => (
        <section class="card" key={day} aria-label={dayLabel(day)}>
          <h3>{dayLabel(day)}</h3>
          {authors.map(([author, items]) => (
            <AuthorWrites key={author} author={author} writes={items} />
          ))}
        </section>
      ))}
      {incomplete.map(({ family, error }) => (
        <p class="mut" key={family}>
          {family}: {error}
        </p>
      ))}
      <p class="bar">
        {showEarlier && <button onClick={showEarlier}>Show earlier writes</button>}
        <a href="/memories">All memories</a> <a href="/writes">See and undo all changes</a>
      </p>
    </section>
  )
}

function AuthorWrites({ author, writes }: { author: string; writes: Write[] }) {
  const [isLong, setLong] = useState(false)
  const more = writes.length - MAX_SHOWN
  return (
    <>
      <h4 class="mut">{author}</h4>
      <ul class="list" aria-label={author}>
        {(isLong ? writes : writes.slice(0, MAX_SHOWN)).map((write) => (
          <WriteItem key={write.ref} write={write} />
        ))}
      </ul>
      {more > 0 && !isLong && (
        <button class="link" onClick={() => setLong(true)}>
          {number(more)} more
        </button>
      )}
    </>
  )
}

function WriteItem({ write }: { write: Write }) {
  const text = plainText(write.text)
  return (
    <li>
      <a href={refHref(write.ref)}>{shownTitle(write)}</a>{' '}
      <span class="mut">
        <a class="quiet" href={href(['memories'], { family: write.family })}>
          {isConversation(write.ref) ? 'conversation' : kindLabel(write.family)}
        </a>{' '}
        · <time dateTime={write.at}>{localClock(new Date(write.at))}</time>
      </span>
      {text && text !== write.title && <span class="snippet">{text}</span>}
    </li>
  )
}
