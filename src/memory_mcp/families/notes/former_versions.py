"""Former versions of notes, brought back as a part of one transaction."""

from collections.abc import Sequence
from dataclasses import replace

from memory_mcp.engines.transactions import Write
from memory_mcp.errors import NotFound
from memory_mcp.families.notes import markdown, transactions
from memory_mcp.families.notes.model import Note, Tag, tag_key
from memory_mcp.families.notes.storage import notes
from memory_mcp.families.notes.storage.notes import StoredNote


def restore(tx: Write, stored: StoredNote, version: int) -> list[str]:
    """Give a note its former text, tags and other fields again, and the date of its last change then. Returns the ids
    of other notes whose links changed."""
    former = notes.former(tx, stored, version, None)
    if former is None:
        raise NotFound("There is no such version any more.")
    marks = markdown.Marks() if former.source == "hook" else markdown.marks(former.content)
    has_own_title = former.title != markdown.first_line(former.content)
    note = replace(former, version=stored.note.version)
    tags = _tags(former, notes.tags_of(tx, stored.seq), marks)
    changed = replace(stored, note=note, has_own_title=has_own_title)
    return transactions.rewrite(tx, stored, changed, tags, marks, former.updated_at)


def _tags(former: Note, now: Sequence[Tag], marks: markdown.Marks) -> list[Tag]:
    """The tags of a former version, of which only the names are stored."""
    known = {tag.key: tag for tag in now}
    inline = set(map(tag_key, marks.tags))
    names = [name for name in former.tags if not (former.archived and tag_key(name) == "archived")]
    tags = [
        replace(known[tag_key(name)], name=name)
        if tag_key(name) in known
        else Tag(name, "inline" if tag_key(name) in inline else "user")
        for name in names
    ]
    return transactions.with_archived_tag(tags) if former.archived else [tag for tag in tags if tag.origin != "state"]
