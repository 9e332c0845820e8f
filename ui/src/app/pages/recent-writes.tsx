// What agents and people wrote last: by day, then by who wrote it, with the text.
import { shortTime } from '../../shared/format'
import type { Schemas } from '../../shared/api-types'
import { SOURCES } from '../note-filters'
import { refHref } from '../refs'
import { href } from '../urls'
import { byDayAndAuthor, dayLabel, type Write } from '../writes'

export function RecentWrites({ writes, incomplete }: Schemas['WritesShown']) {
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
      <p>
        <a href="/memories">All memories</a>
      </p>
    </section>
  )
}

const authorLabel = (author: string) =>
  Object.hasOwn(SOURCES, author) ? SOURCES[author as keyof typeof SOURCES] : author

function AuthorWrites({ author, writes }: { author: string; writes: Write[] }) {
  return (
    <>
      <h4 class="mut">{authorLabel(author)}</h4>
      <ul class="list">
        {writes.map((write) => (
          <li key={write.ref}>
            <a href={refHref(write.ref)}>{write.title}</a>{' '}
            <span class="mut">
              <a class="quiet" href={href(['memories'], { family: write.family })}>
                {write.family}
              </a>{' '}
              · <time dateTime={write.at}>{shortTime(write.at).slice(11)}</time>
            </span>
            {write.text && write.text !== write.title && <span class="snippet">{write.text}</span>}
          </li>
        ))}
      </ul>
    </>
  )
}
