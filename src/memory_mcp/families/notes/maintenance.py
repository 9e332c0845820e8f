"""Export and import of notes: a markdown file for each, their order, and their links. The doctor's check of sync."""

from collections.abc import Iterator
from typing import Any, get_args
from uuid import UUID

import yaml

from memory_mcp.clock import instant, precise_stamp, utc_now
from memory_mcp.engines.sqlite import integrity
from memory_mcp.errors import AppError, Invalid, NotFound
from memory_mcp.families.maintenance import (
    ExportFolder,
    FamilyMaintenance,
    Finding,
    ImportFolder,
    Inspection,
    file_name,
    read_small,
    text_of,
    write_lines,
    write_text,
)
from memory_mcp.families.notes.model import Note, Source
from memory_mcp.families.notes.operations import Notes
from memory_mcp.families.notes.schema import NOTES_FILE
from memory_mcp.families.notes.storage.sync import namespaces
from memory_mcp.families.notes.transfer import PortableNote, SessionPosition
from memory_mcp.services.search.ranking import DEFAULT_IMPORTANCE

FOLDER, LINKS, ORDER = "notes", "links.jsonl", "order.jsonl"
_FAST_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
MAX_ID_CHARS = 300  # of a session, or of the note before
LINK_FIELDS = ("source_id", "target_id", "kind", "created_at")


def _export(notes: Notes, target: ExportFolder) -> int:
    return write_lines(target.make(FOLDER) / ORDER, _write_files(notes, target))


def _write_files(notes: Notes, target: ExportFolder) -> Iterator[dict[str, Any]]:
    """Write a file for each note, in the order the notes were written. Yields the lines of order.jsonl."""
    everything = notes.transfer.everything(target.caller)
    for one in target.track(everything, "notes", notes.transfer.count(target.caller)):
        note = one.note
        folders = map(file_name, filter(None, note.folder.split("/")))
        folder = target.make(FOLDER, _folder_name(note.namespace), *folders)
        path = folder / f"{file_name(note.title)}-{note.id[:8]}.md"
        if path.exists():
            path = folder / f"{file_name(note.title)}-{note.id}.md"
        write_text(path, note_file(one))
        position = {"session": one.position.session_id, "previous": one.position.previous_id}
        yield {"file": path.relative_to(target.path / FOLDER).as_posix(), **position}


def _folder_name(namespace: str) -> str:
    """The name must differ from those of the files in the same folder, on systems that ignore case, too."""
    name = file_name(namespace)
    return f"{name}_" if name.casefold() in (LINKS, ORDER) else name


def _export_links(notes: Notes, target: ExportFolder) -> int:
    found = (dict(zip(LINK_FIELDS, link, strict=True)) for link in notes.transfer.every_link(target.caller))
    return write_lines(target.path / FOLDER / LINKS, target.track(found, "links"))


def note_file(exported: PortableNote) -> str:
    """A note as a markdown file. `read_note` reverses it exactly."""
    note = exported.note
    fields: dict[str, Any] = {
        "id": note.id,
        "title": note.title if exported.has_own_title else None,
        "namespace": note.namespace,
        "folder": note.folder or None,
        "tags": [*exported.user_tags] or None,
        "importance": note.importance,
        "metadata": note.metadata or None,
        "source": note.source,
        "client": note.client,
        "created_at": note.created_at,
        "updated_at": note.updated_at,
        "last_referenced_at": note.last_referenced_at,
        "expires_at": note.expires_at,
        "archived": note.archived or None,
        "version": note.version,
    }
    front = _dump({name: value for name, value in fields.items() if value is not None})
    return f"---\n{front}---\n\n{note.content}\n"


def _dump(fields: dict[str, Any]) -> str:
    """libyaml is several times as fast, but it writes characters beyond U+FFFF, such as emoji, as escapes."""
    text = str(yaml.dump(fields, Dumper=_FAST_DUMPER, allow_unicode=True, sort_keys=False))
    if "\\U" in text:
        return str(yaml.safe_dump(fields, allow_unicode=True, sort_keys=False))
    return text


def _import(notes: Notes, source: ImportFolder) -> None:
    """Import the notes that order.jsonl lists, in its order, then the others. A note is identified by its id."""
    positions = dict(_positions(source))
    for path in source.files(FOLDER, first=tuple(positions)):
        if path.suffix != ".md":
            continue
        with source.one(source.shown(path)):
            read = read_note(read_small(path).decode(), positions.get(source.shown(path), SessionPosition()))
            is_new = notes.transfer.add(source.caller, read, dry_run=source.dry_run)
            is_new = source.is_first("note", read.note.id) and is_new
            source.result.count("notes", new=is_new)


def _positions(source: ImportFolder) -> Iterator[tuple[str, SessionPosition]]:
    """The lines of order.jsonl: the file of each note, and its position. Older exports have none."""
    for location, fields in source.lines(FOLDER, ORDER):
        with source.one(location):
            position = SessionPosition(_optional_id(fields, "session"), _optional_id(fields, "previous"))
            yield f"{FOLDER}/{text_of(fields, 'file')}", position


def _optional_id(fields: dict[str, Any], name: str) -> str | None:
    """Raises TypeError or ValueError unless it is missing, null or a short text."""
    if fields.get(name) is None:
        return None
    id_ = text_of(fields, name)
    if "\0" in id_ or len(id_) > MAX_ID_CHARS:
        raise ValueError(name)
    return id_


def _import_links(notes: Notes, source: ImportFolder) -> None:
    caller = source.caller
    existing = {(source_id, target_id, kind) for source_id, target_id, kind, _ in notes.transfer.every_link(caller)}
    for location, fields in source.lines(FOLDER, LINKS):
        with source.one(location):
            if fields["kind"] not in ("link", "supersedes"):
                raise Invalid(f"no link is a {fields['kind']!r}")
            link = text_of(fields, "source_id"), text_of(fields, "target_id"), str(fields["kind"])
            if source.dry_run:
                _check_ends(notes, source, *link[:2])
                is_new = source.is_first("link", *link) and link not in existing
            else:
                is_new = notes.transfer.add_link(caller, *link)
            source.result.count("links", new=is_new)


def _check_ends(notes: Notes, source: ImportFolder, source_id: str, target_id: str) -> None:
    """For a dry run: raise as importing the link would, counting notes that would be imported."""
    if source_id == target_id:
        raise Invalid("a note cannot be linked to itself")
    for id_ in (source_id, target_id):
        if not source.has_seen("note", id_) and not notes.transfer.has(source.caller, id_):
            raise NotFound(f"there is no note {id_}")


def read_note(text: str, position: SessionPosition) -> PortableNote:
    """The note in a markdown file. Raises ValueError."""
    fields, content = _front_matter(text)
    now = precise_stamp(utc_now())
    source: Source = fields["source"] if fields.get("source") in get_args(Source) else "import"
    tags = [str(tag) for tag in fields.get("tags") or ()]
    note = Note(
        id=str(UUID(str(fields["id"]))),
        user_id="",
        namespace=str(fields.get("namespace") or "default"),
        title=str(fields.get("title") or ""),
        content=content.removesuffix("\n"),
        folder=str(fields.get("folder") or ""),
        tags=tags,
        importance=min(1.0, max(0.0, float(fields.get("importance", DEFAULT_IMPORTANCE)))),
        metadata=dict(fields.get("metadata") or {}),
        source=source,
        client=fields.get("client"),
        created_at=_time(fields, "created_at") or now,
        updated_at=_time(fields, "updated_at") or now,
        last_referenced_at=_time(fields, "last_referenced_at"),
        archived=bool(fields.get("archived")),
        expires_at=_time(fields, "expires_at"),
        superseded_by=None,
        version=max(1, int(fields.get("version", 1))),
    )
    return PortableNote(note, tags, has_own_title=bool(fields.get("title")), position=position)


def _front_matter(text: str) -> tuple[dict[str, Any], str]:
    if not text.startswith("---\n"):
        raise ValueError("no front matter")
    front, mark, content = text[4:].partition("\n---\n\n")
    if not mark:
        raise ValueError("front matter without an end")
    fields = yaml.safe_load(front)
    if not isinstance(fields, dict):
        raise TypeError("front matter")
    return fields, content


def _time(fields: dict[str, Any], name: str) -> str | None:
    return precise_stamp(instant(str(fields[name]))) if fields.get(name) else None


def _check(inspection: Inspection) -> Iterator[Finding]:
    """Name the notes that sync could not exchange."""
    for tenant in inspection.tenants:
        [file] = tenant.files(NOTES_FILE)
        try:
            if not file.path.exists() or not integrity.is_current(file.path, file.kind.schema, file.lock):
                continue
            with inspection.open(file) as db, db.read() as tx:
                synced, skipped = namespaces.namespaces(tx), namespaces.skipped_records(tx)
        except AppError:  # found with the databases
            continue
        inspection.checked["synced namespaces"] += len(synced)
        refused = [reason for namespace in synced for reason in namespace.refused]
        if refused:
            yield _not_exchanged(file.name, "the hub refuses", refused)
        if skipped:
            yield _not_exchanged(file.name, "this node cannot merge", [f"{one.id}: {one.reason}" for one in skipped])


def _not_exchanged(file: str, what: str, reasons: list[str]) -> Finding:
    count = f"{len(reasons)} notes" if len(reasons) > 1 else "a note"
    message = f"{what} {count}, such as {reasons[0]} (`memory-mcp sync status` lists them)"
    return Finding("sync", file, "problem", message)


MAINTENANCE = FamilyMaintenance[Notes](
    exports={"notes": _export, "links": _export_links},
    imports={"notes": _import, "links": _import_links},
    check=_check,
)
