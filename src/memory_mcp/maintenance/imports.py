"""An export taken in again: what is new is added, what is there already stays as it is."""

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, get_args
from uuid import UUID

import yaml

from memory_mcp.caller import Caller
from memory_mcp.clock import instant, precise_stamp, short_stamp, utc_now
from memory_mcp.engines.files import compressed
from memory_mcp.errors import AppError, Conflict, Invalid, NotFound
from memory_mcp.families.graph import exchange
from memory_mcp.families.graph.model import NamedRelation, NewEntity, Project
from memory_mcp.families.notes.model import DEFAULT_IMPORTANCE, Note, Source
from memory_mcp.families.portals.address import NAME, Address
from memory_mcp.families.stores import paths
from memory_mcp.families.stores.folders import MAX_FILE_BYTES
from memory_mcp.families.stores.model import IncomingFile
from memory_mcp.families.vault.model import NewMemory
from memory_mcp.maintenance.exports import ABOUT, FORMAT, LINKS, PROJECTS, VAULT
from memory_mcp.maintenance.families import Families
from memory_mcp.maintenance.model import ImportResult, LeftOut, Tell, quietly


def read_export(
    rooms: Families, caller: Caller, folder: Path, *, dry_run: bool = False, tell: Tell = quietly
) -> ImportResult:
    """Take in a folder that `memory-mcp export` made. A second time there is nothing new.

    Known are: a memory of the vault by its key, a note by its id, a file of a store by its path, entities, observations
    and relations by what they say, a portal by its address. Raises Invalid for a folder that is no export.
    """
    _check(folder)
    reading = _Reading(rooms, caller, folder, ImportResult(), dry_run)
    steps = (reading.vault, reading.notes, reading.links, reading.stores, reading.graph, reading.portals)
    for number, step in enumerate(steps):
        tell(step.__name__, number, len(steps))
        step()
    tell("done", len(steps), len(steps))
    return reading.taken


class _Reading:
    def __init__(self, rooms: Families, caller: Caller, folder: Path, taken: ImportResult, dry_run: bool) -> None:
        self._rooms = rooms
        self._caller = caller
        self._folder = folder
        self.taken = taken
        self._dry_run = dry_run
        self._seen: set[tuple[str, ...]] = set()

    def vault(self) -> None:
        for place, said in self._lines(self._folder / VAULT):
            with self._one(place):
                vector = said.get("embedding")
                memory = NewMemory(
                    "vault",
                    _text(said, "key"),
                    _text(said, "content"),
                    tuple(map(str, said.get("tags") or ())),
                    tuple(map(float, vector)) if vector else None,
                )
                created, updated = _vault_time(said, "created_at"), _vault_time(said, "updated_at")
                is_new = (
                    self._is_first("memory", memory.key) and not self._rooms.vault.has(self._caller, memory.key)
                    if self._dry_run
                    else self._rooms.vault.take_in(self._caller, memory, created, updated)
                )
                self.taken.count("memories", new=is_new)

    def notes(self) -> None:
        for path in sorted((self._folder / "notes").rglob("*.md")):
            with self._one(self._shown(path)):
                note, tags, has_own_title = read_note(_read(path).decode())
                is_new = self._rooms.notes.take_in(
                    self._caller, note, tags, has_own_title=has_own_title, dry_run=self._dry_run
                )
                is_new = self._is_first("note", note.id) and is_new
                self.taken.count("notes", new=is_new)

    def links(self) -> None:
        there = {(source, target, kind) for source, target, kind, _ in self._rooms.notes.every_link(self._caller)}
        for place, said in self._lines(self._folder / "notes" / LINKS):
            with self._one(place):
                if said["kind"] not in ("link", "supersedes"):
                    raise Invalid(f"no link is a {said['kind']!r}")
                link = _text(said, "source_id"), _text(said, "target_id"), str(said["kind"])
                if self._dry_run:
                    self._check_ends(*link[:2])
                    is_new = self._is_first("link", *link) and link not in there
                else:
                    is_new = self._rooms.notes.take_in_link(self._caller, *link)
                self.taken.count("links", new=is_new)

    def _check_ends(self, source_id: str, target_id: str) -> None:
        """Raises as taking in a link between two notes does, which may be about to come."""
        if source_id == target_id:
            raise Invalid("a note cannot be linked to itself")
        for id_ in (source_id, target_id):
            if ("note", id_) not in self._seen and not self._rooms.notes.has(self._caller, id_):
                raise NotFound(f"there is no note {id_}")

    def _is_first(self, *thing: str) -> bool:
        """Whether it did not come before in this export."""
        is_first = thing not in self._seen
        self._seen.add(thing)
        return is_first

    def stores(self) -> None:
        for folder in sorted(path for path in (self._folder / "stores").glob("*") if path.is_dir()):
            with self._one(self._shown(folder)):
                paths.check_store(folder.name)
                for path in sorted(folder.rglob("*")):
                    if path.is_file() and not path.is_symlink() and path.name != "index.yaml":
                        with self._one(self._shown(path)):
                            self._store_file(folder.name, path.relative_to(folder).as_posix(), path)
                if not self._dry_run and folder.name in {one.name for one in self._rooms.stores.all(self._caller)}:
                    self._rooms.stores.reindex(self._caller, folder.name, lambda done, whole: None)

    def _store_file(self, store: str, way: str, path: Path) -> None:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
        coming = IncomingFile(way, content, path.stat().st_mtime_ns, is_foreign=False)
        arrival = self._rooms.stores.take_in(self._caller, store, coming, dry_run=self._dry_run)
        self.taken.count("files", new=arrival == "new")

    def graph(self) -> None:
        lines = self._lines(self._folder / "graph" / PROJECTS)
        about = {str(said.get("file", said.get("name"))): said for _, said in lines}
        known = {project.name: project for project in self._rooms.graph.every_project(self._caller)}
        for path in sorted((self._folder / "graph").glob("*.jsonl")):
            if path.name == PROJECTS:
                continue
            with self._one(self._shown(path)):
                file = path.name.removesuffix(".jsonl")
                said = about.get(file, {})
                name = str(said.get("name", file))
                self._project(name, known.get(name), said, *_graph(path))

    def _project(
        self,
        name: str,
        there: Project | None,
        about: dict[str, Any],
        entities: list[NewEntity],
        ties: list[NamedRelation],
    ) -> None:
        is_archived = there is not None and there.status == "archived"
        if is_archived or self._dry_run:
            added = self._rooms.graph.compare_graph(
                self._caller, name, entities, ties, archived=is_archived, any_name="name" in about
            )
        else:
            description = str(about.get("description") or "")
            added = self._rooms.graph.add_graph(
                self._caller, name, entities, ties, description, any_name="name" in about
            )
        if is_archived and (added.entities or added.observations or added.relations):
            raise Conflict(f"the project {name!r} is archived here: restore it, and import again")
        self.taken.count("projects", new=there is None)
        for what in ("entities", "observations", "relations"):
            self.taken.count(what, new=True, by=getattr(added, what))
        self.taken.count("entities and relations", new=False, by=added.known)
        if added.dangling:
            place = f"graph/{name}.jsonl"
            self.taken.left_out.append(LeftOut(place, f"{added.dangling} relations name entities that nobody knows"))
        if there is None and about.get("status") == "archived" and not self._dry_run:
            self._rooms.graph.archive_project(self._caller, name)

    def portals(self) -> None:
        there = {portal.address for portal in self._rooms.portals.all(self._caller)}
        for path in sorted((self._folder / "portals").glob("*/*.db")):
            with self._one(self._shown(path)):
                address = Address(path.parent.name, path.stem)
                if not (NAME.fullmatch(address.namespace) and NAME.fullmatch(address.portal)):
                    raise Invalid("no portal has such a name")
                is_new = address not in there
                if is_new and not self._dry_run:
                    self._rooms.portals.transfers.take_in(self._caller, address, path)
                self.taken.count("portals", new=is_new)

    def _lines(self, path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
        with self._one(self._shown(path)), suppress(FileNotFoundError), path.open("rb") as file:
            for number, line in enumerate(compressed.lines(file), start=1):
                place = f"{self._shown(path)}:{number}"
                with self._one(place):
                    said = json.loads(line.decode())
                    if not isinstance(said, dict):
                        raise Invalid("it is no JSON object")
                    yield place, said

    def _one(self, place: str) -> "_One":
        return _One(self.taken, place)

    def _shown(self, path: Path) -> str:
        return path.relative_to(self._folder).as_posix()


class _One:
    """One thing of many: what cannot be taken in keeps nothing else from it, and is told of."""

    def __init__(self, taken: ImportResult, place: str) -> None:
        self._taken = taken
        self._place = place

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, exc: object, trace: object) -> bool:
        if isinstance(exc, AppError):
            self._taken.left_out.append(LeftOut(self._place, exc.message))
        elif isinstance(exc, (ValueError, KeyError, TypeError, OSError, RecursionError, yaml.YAMLError)):
            self._taken.left_out.append(LeftOut(self._place, f"it is not as an export has it ({exc})"))
        else:
            return False
        return True


def read_note(text: str) -> tuple[Note, list[str], bool]:
    """A note out of its markdown file, the user's tags, and whether its title is its own. Raises ValueError."""
    if not text.startswith("---\n"):
        raise ValueError("no front matter")
    front, mark, content = text[4:].partition("\n---\n\n")
    if not mark:
        raise ValueError("front matter without an end")
    said = yaml.safe_load(front)
    if not isinstance(said, dict):
        raise TypeError("front matter")
    now = precise_stamp(utc_now())
    source: Source = said["source"] if said.get("source") in get_args(Source) else "import"
    tags = [str(tag) for tag in said.get("tags") or ()]
    note = Note(
        id=str(UUID(str(said["id"]))),
        user_id="",
        namespace=str(said.get("namespace") or "default"),
        title=str(said.get("title") or ""),
        content=content.removesuffix("\n"),
        folder=str(said.get("folder") or ""),
        tags=tags,
        importance=min(1.0, max(0.0, float(said.get("importance", DEFAULT_IMPORTANCE)))),
        metadata=dict(said.get("metadata") or {}),
        source=source,
        client=said.get("client"),
        created_at=_time(said, "created_at") or now,
        updated_at=_time(said, "updated_at") or now,
        last_referenced_at=_time(said, "last_referenced_at"),
        archived=bool(said.get("archived")),
        expires_at=_time(said, "expires_at"),
        superseded_by=None,
        version=max(1, int(said.get("version", 1))),
    )
    return note, tags, bool(said.get("title"))


def _time(said: dict[str, Any], name: str) -> str | None:
    return precise_stamp(instant(str(said[name]))) if said.get(name) else None


def _vault_time(said: dict[str, Any], name: str) -> str:
    """As the vault has times. Raises ValueError for what is none, KeyError for none."""
    return short_stamp(instant(str(said[name])))


def _text(said: dict[str, Any], name: str) -> str:
    if not isinstance(said[name], str):
        raise TypeError(name)
    said[name].encode()  # no halves of surrogate pairs
    return str(said[name])


def _check(folder: Path) -> None:
    try:
        about = json.loads(_read(folder / ABOUT).decode())
        format_ = about["format"]
    except FileNotFoundError as exc:
        raise NotFound(f"{folder} is no export of Memory MCP: it has no {ABOUT}.") from exc
    except (OSError, ValueError, KeyError, TypeError) as exc:
        raise Invalid(f"{folder} is no export of Memory MCP: its {ABOUT} cannot be read.") from exc
    if format_ != FORMAT:
        raise Invalid(f"{folder} is an export of a kind this program does not know ({format_}). Upgrade memory-mcp.")


def _read(path: Path) -> bytes:
    """A small file. Raises Invalid for a large one."""
    with path.open("rb") as file:
        content = file.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        raise Invalid(f"It is over {MAX_FILE_BYTES} bytes long.", code="too_large")
    return content


def _graph(path: Path) -> tuple[list[NewEntity], list[NamedRelation]]:
    """Raises Invalid for a line that is neither an entity nor a relation."""
    with path.open("rb") as file:
        found = list(exchange.read(compressed.lines(file)))
    for number, one in found:
        if isinstance(one, Invalid):
            raise Invalid(f"line {number}: {one.message}") from one
    entities = [one for _, one in found if isinstance(one, NewEntity)]
    return entities, [one for _, one in found if isinstance(one, NamedRelation)]
