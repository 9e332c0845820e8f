"""The steps of writing notes. Each function is a part of one transaction."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

from memory_mcp.caller import Caller
from memory_mcp.clock import instant, precise_stamp
from memory_mcp.engines.transactions import Read, Write
from memory_mcp.errors import Invalid, NotFound
from memory_mcp.families.notes import markdown
from memory_mcp.families.notes.model import (
    ARCHIVED,
    MAX_METADATA_BYTES,
    SYSTEM_TAGS,
    Author,
    NewNote,
    Note,
    Revision,
    Tag,
    tag_key,
)
from memory_mcp.families.notes.result_limits import metadata_json
from memory_mcp.families.notes.storage import index, links, notes, session_order
from memory_mcp.families.notes.storage.notes import StoredNote
from memory_mcp.families.notes.storage.sync import wikilinks
from memory_mcp.families.notes.storage.writes import WRITES, link_write, note_write
from memory_mcp.services.search import ranking

FULL_ID_CHARS, SHORT_ID_CHARS = 36, 8  # an id may be given by so much of its beginning

# The first few functions return the ids of other notes whose links changed.


def rewrite(
    tx: Write,
    former: StoredNote,
    stored: StoredNote,
    tags: list[Tag],
    marks: markdown.Marks,
    updated_at: str | None = None,
) -> list[str]:
    """Replace the former note by the changed one, and update everything that depends on it. An undo names the time of
    the last change before."""
    seq, note = stored.seq, stored.note
    moved = note.namespace != former.note.namespace
    came_or_went = note.archived != former.note.archived
    linking = links.unresolve_links(tx, seq) if moved or came_or_went else []
    changed = replace(note, updated_at=updated_at or tx.precise_stamp)
    previous, following = _relink(tx, former, note)
    _replace(tx, former, replace(stored, note=changed, previous=previous), tags)
    links.set_wikilinks(tx, seq, marks.links)
    if moved or came_or_went:
        wikilinks.restore_targets(tx, seq)
    for source in (seq, *linking):
        linking = [*linking, *links.resolve_wikilinks(tx, source)]
    if came_or_went:
        for older in links.superseded(tx, seq):
            links.refresh_superseded(tx, older)
    former_text = (former.note.title, former.note.content)
    if note.archived:
        index.VECTORS.delete(tx, seq)
    elif moved or came_or_went or (note.title, note.content) != former_text:
        index.QUEUE.add(tx, seq)
    before = (former.note.content, former.note.expires_at)
    if moved or came_or_went or (note.content, note.expires_at) != before:
        _index_again(tx, following)
    return notes.ids_of(tx, linking)


def _relink(tx: Write, former: StoredNote, note: Note) -> tuple[int | None, list[int]]:
    """Keep the order of a session where a note leaves it or comes back. Returns the note before it, and the notes whose
    note before changes."""
    moved = note.namespace != former.note.namespace
    if former.note.archived and not note.archived and not moved:
        created, gap = instant(note.created_at), ranking.MAX_CONTEXT_GAP
        return session_order.rejoin_session(tx, former.seq, precise_stamp(created - gap), precise_stamp(created + gap))
    if moved or note.archived != former.note.archived:
        return None, session_order.unlink_from_session(tx, former.seq)
    return former.previous, session_order.followers(tx, former.seq)


@dataclass(frozen=True)
class Update:
    stored: StoredNote
    is_change: bool  # False: the note is unchanged
    linked: list[str]  # the ids of other notes whose links changed


def update(
    tx: Write, caller: Caller, author: Author, former: StoredNote, revision: Revision, marks: markdown.Marks
) -> Update:
    """Apply a revision to a note."""
    had = notes.tags_of(tx, former.seq)
    tags = revised_tags(had, author, former.note, revision, marks.tags)
    stored = revised(tx, former, revision, tags)
    is_change = stored != former or tags != had
    linking = rewrite(tx, former, stored, tags, marks, revision.updated_at) if is_change else []
    older = supersede(tx, caller, former, revision.supersedes)
    stored = existing(tx, former.note.id, caller.confined_to)
    if is_change:
        WRITES.record(tx, caller, note_write(stored.note.id, "updated", stored.note.version))
    return Update(stored, is_change or bool(older), [*linking, *older])


def insert(
    tx: Write, caller: Caller, author: Author, new: NewNote, marks: markdown.Marks
) -> tuple[StoredNote, list[str]]:
    """Returns the note, and the ids of notes whose links changed."""
    since = precise_stamp(tx.now - ranking.MAX_CONTEXT_GAP)
    previous = session_order.latest_of_session(tx, author.session_id, namespace_for(caller, new.namespace), since)
    return insert_after(tx, caller, author, new, marks, previous)


def insert_after(
    tx: Write, caller: Caller, author: Author, new: NewNote, marks: markdown.Marks, previous: int | None
) -> tuple[StoredNote, list[str]]:
    """The same, with the note before it as its context."""
    namespace = namespace_for(caller, new.namespace)
    tags = merged_tags(new.tags, system_tags(author, namespace), marks.tags)
    stored = notes.insert(
        tx,
        new_note(caller, author, new, namespace, tags, tx.precise_stamp),
        has_own_title=new.title is not None,
        previous=previous,
        session_id=author.session_id,
    )
    notes.insert_tags(tx, stored.seq, tags)
    if marks.links:
        links.set_wikilinks(tx, stored.seq, marks.links)
    WRITES.record(tx, caller, note_write(stored.note.id, "created", stored.note.version))
    linking = notes.ids_of(tx, links.resolve_wikilinks(tx, stored.seq))
    older = supersede(tx, caller, stored, new.supersedes)
    index.insert_new_words(tx, stored, tags)
    index.QUEUE.insert(tx, stored.seq)
    return stored, [*linking, *older]


def _replace(tx: Write, former: StoredNote, stored: StoredNote, tags: list[Tag]) -> None:
    notes.save_version(tx, former.seq)
    notes.update(tx, replace(stored, note=replace(stored.note, version=former.note.version + 1)))
    notes.set_tags(tx, former.seq, tags)
    index.index_words(tx, former.seq)


def archive(tx: Write, caller: Caller, former: StoredNote) -> tuple[list[Note], list[str]]:
    if former.note.archived:
        return [], []
    WRITES.record(tx, caller, note_write(former.note.id, "deleted", former.note.version + 1))
    return archive_unrecorded(tx, former)


def archive_unrecorded(tx: Write, former: StoredNote) -> tuple[list[Note], list[str]]:
    """Archive a note without an entry in the journal of writes."""
    tags = with_archived_tag([*notes.tags_of(tx, former.seq)])
    note = replace(former.note, archived=True, importance=0.0, tags=[tag.name for tag in tags])
    marks = markdown.Marks(links=tuple(links.titles_named(tx, former.seq)))
    return [former.note, note], rewrite(tx, former, replace(former, note=note), tags, marks)


def delete(tx: Write, caller: Caller, stored: StoredNote) -> tuple[list[Note], list[str]]:
    WRITES.record(tx, caller, note_write(stored.note.id, "deleted", None))
    older = links.superseded(tx, stored.seq)
    following = session_order.unlink_from_session(tx, stored.seq)
    linking = links.unresolve_links(tx, stored.seq)
    ids = notes.ids_of(tx, [*linking, *older])
    notes.delete(tx, stored.seq)
    for source in linking:
        links.resolve_wikilinks(tx, source)
    for seq in older:
        links.refresh_superseded(tx, seq)
    _index_again(tx, following)
    return [stored.note], ids


def _index_again(tx: Write, seqs: Iterable[int]) -> None:
    """Index these notes again, because the note before them, their context, changed or was deleted."""
    for seq in seqs:
        index.index_words(tx, seq)
        index.VECTORS.save_context(tx, seq)


def supersede(tx: Write, caller: Caller, newer: StoredNote, ids: Iterable[str]) -> list[str]:
    superseded = list(dict.fromkeys(ids))
    for id_ in superseded:
        older = existing(tx, id_, caller.confined_to, field="supersedes")
        if links.supersedes(tx, older.seq, newer.seq):
            raise Invalid(
                f"A note cannot supersede itself, nor one that supersedes it. Leave {id_} out.", field="supersedes"
            )
        links.supersede(tx, newer.seq, older.seq)
        WRITES.record(tx, caller, link_write(newer.note.id, older.note.id, "supersedes", "created"))
    return superseded


# Tags


def merged_tags(user: Iterable[str], system: Iterable[str], inline: Iterable[str]) -> list[Tag]:
    """The user's tags, the system's, and those in the body, in this order, without duplicates in any case."""
    tags = [
        *(Tag(name, "user") for name in user),
        *(Tag(name, "system") for name in system),
        *(Tag(name, "inline") for name in inline),
    ]
    kept: dict[str, Tag] = {}
    for tag in tags:
        if tag.key != ARCHIVED:  # reserved for archived notes, even if it is in a body or the name of a client
            kept.setdefault(tag.key, tag)
    return list(kept.values())


def with_archived_tag(tags: Iterable[Tag]) -> list[Tag]:
    """The tags of an archived note."""
    return [*tags, Tag(ARCHIVED, "state")]


def system_tags(author: Author, namespace: str) -> list[str]:
    if author.source != "mcp":
        return [_namespace_tag(namespace)]
    return [*SYSTEM_TAGS, *([author.client] if author.client else []), _namespace_tag(namespace)]


def _namespace_tag(namespace: str) -> str:
    return f"ns/{namespace}"


def revised_tags(
    former: Sequence[Tag], author: Author, note: Note, revision: Revision, inline: Collection[str]
) -> list[Tag]:
    """The user's tags after the revision, then the system's, then those in the body."""
    removed = {tag_key(name) for name in revision.remove_tags}
    namespace = revision.namespace or note.namespace
    left = {tag_key(_namespace_tag(note.namespace))} if namespace != note.namespace else set()
    own = [tag.name for tag in former if tag.origin == "user"] if revision.tags is None else list(revision.tags)
    own = [name for name in [*own, *revision.add_tags] if tag_key(name) not in removed | left]
    system = [tag.name for tag in former if tag.origin == "system" and tag.key not in left]
    tags = merged_tags(own, [*system, *system_tags(author, namespace)], inline)
    return with_archived_tag(tags) if note.archived and ARCHIVED not in removed else tags


# Notes


def new_note(caller: Caller, author: Author, new: NewNote, namespace: str, tags: list[Tag], now: str) -> Note:
    return Note(
        id=new.id or str(uuid4()),
        user_id=caller.user,
        namespace=namespace,
        title=new.title or markdown.first_line(new.content),
        content=new.content,
        folder=new.folder,
        tags=[tag.name for tag in tags],
        importance=new.importance,
        metadata=checked_metadata(dict(new.metadata)),
        source=author.source,
        client=author.client,
        created_at=new.created_at or now,
        updated_at=new.updated_at or new.created_at or now,
        last_referenced_at=None,
        archived=False,
        expires_at=new.expires_at,
        superseded_by=None,
        version=1,
    )


def revised(tx: Read, former: StoredNote, revision: Revision, tags: list[Tag]) -> StoredNote:
    """The note after a revision."""
    note = former.note
    content = note.content if revision.content is None else revision.content
    has_own_title = revision.title is not None or former.has_own_title
    archived = any(tag.origin == "state" for tag in tags)
    is_restored = note.archived and not archived and not note.importance
    restored = notes.importance_before_archiving(tx, former.seq) if is_restored else None
    importance = restored if revision.importance is None else revision.importance
    revised = replace(
        note,
        title=(revision.title or note.title) if has_own_title else markdown.first_line(content),
        content=content,
        folder=note.folder if revision.folder is None else revision.folder,
        namespace=revision.namespace or note.namespace,
        importance=note.importance if importance is None else importance,
        metadata=_patched(note.metadata, revision.metadata_patch),
        expires_at=note.expires_at if revision.expires_at is None else revision.expires_at or None,
        archived=archived,
        tags=[tag.name for tag in tags],
    )
    return replace(former, note=revised, has_own_title=has_own_title)


def _patched(metadata: dict[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in metadata.items() if key not in patch}
    return checked_metadata(kept | {key: value for key, value in patch.items() if value is not None})


def checked_metadata(metadata: dict[str, Any]) -> dict[str, Any]:
    if len(metadata_json(metadata)) > MAX_METADATA_BYTES:
        raise Invalid(
            "metadata is over 1 MiB altogether. Keep less, or put it into a note.", code="too_large", field="metadata"
        )
    return metadata


def check_text(content: str) -> None:
    if not content.strip():
        raise Invalid(
            "A note needs some text.", hint="Give it as `content`; memory_delete removes a note.", field="content"
        )


def namespace_for(caller: Caller, wanted: str | None) -> str:
    """The namespace for a caller's note. Raises NotFound outside of the namespace that the caller is confined to."""
    if wanted and caller.confined_to not in (None, wanted):
        raise NotFound(
            f"There is no namespace {wanted!r}: this key is confined to {caller.confined_to!r}. Leave it out.",
            field="namespace",
        )
    return wanted or caller.namespace


def existing(tx: Read, id_: str, within: str | None, **blamed: str) -> StoredNote:
    """A note that the caller may see, by its id or by a beginning of it that no other id has. Raises NotFound; `blamed`
    names the field with the id."""
    stored = notes.get(tx, id_, within)
    if stored is None and SHORT_ID_CHARS <= len(id_) < FULL_ID_CHARS:
        found = notes.ids_starting(tx, id_, within, 2)
        stored = notes.get(tx, found[0], within) if len(found) == 1 else None
    if stored is None:
        raise NotFound("There is no note with this id.", hint="memory_search finds what there is.", **blamed)
    return stored


def link_ends(tx: Read, source_id: str, target_id: str, within: str | None) -> tuple[StoredNote, StoredNote]:
    source = existing(tx, source_id, within, field="source_id")
    target = existing(tx, target_id, within, field="target_id")
    if source.seq == target.seq:
        raise Invalid("A note cannot be linked to itself. Give two ids.", field="target_id")
    return source, target
