"""Everything one user keeps, as files that people and other programs read."""

import itertools
import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from memory_mcp import __version__
from memory_mcp.caller import Caller
from memory_mcp.clock import stamp, utc_now
from memory_mcp.errors import AppError, Conflict, NotFound
from memory_mcp.families.graph import exchange
from memory_mcp.families.notes.model import Note, Tag
from memory_mcp.families.portals.model import Format
from memory_mcp.maintenance.families import Families
from memory_mcp.maintenance.file_tree import Tree
from memory_mcp.maintenance.model import Exported, LeftOut, Tell, quietly
from memory_mcp.maintenance.staging import staging, writing_to

FORMAT = "memory-mcp-export/1"
ABOUT = "export.json"
VAULT, LINKS, PROJECTS = "vault.jsonl", "links.jsonl", "_projects.jsonl"  # no project can have that name
MAX_NAME_CHARS = 60  # characters of a title or folder in a file's name
TABLE_FORMATS: tuple[Format, ...] = ("parquet", "csv")
README = Path(__file__).with_name("export_readme.md")


class Export:
    """Exports what one user keeps in the rooms of those families that the caller may use."""

    def __init__(self, rooms: Families, caller: Caller) -> None:
        self._rooms = rooms
        self._caller = caller
        self._left_out: list[LeftOut] = []

    def run(self, target: Path, tell: Tell = quietly) -> Exported:
        """Write everything to a new folder: all of it, or there is none. Raises Conflict for one that is not empty."""
        target = target.expanduser().absolute()
        _check_target(target)
        counts: dict[str, int] = {}
        steps = {
            what: step
            for what, family, step in (
                ("vault", "vault", self._vault),
                ("notes", "notes", self._notes),
                ("links", "notes", self._links),
                ("stores", "stores", self._stores),
                ("graph", "graph", self._graph),
                ("portals", "portals", self._portals),
            )
            if family in self._caller.families
        }
        with writing_to(target), staging(target.parent) as parent:
            folder = parent / "export"
            folder.mkdir(mode=0o700)
            for number, (name, step) in enumerate(steps.items()):
                tell(name, number, len(steps))
                counts[name] = step(folder)
            tell("done", len(steps), len(steps))
            self._write_about(folder, counts)
            if target.exists():
                target.rmdir()  # it is empty
            folder.rename(target)
        return Exported(target, counts, tuple(self._left_out))

    def _write_about(self, folder: Path, counts: dict[str, int]) -> None:
        made_at = stamp(utc_now())
        _write(folder / "README.md", README.read_text(encoding="utf-8").format(made_at=made_at, version=__version__))
        about = {
            "format": FORMAT,
            "made_by": f"memory-mcp {__version__}",
            "made_at": made_at,
            "counts": counts,
            "left_out": [vars(one) for one in self._left_out],
        }
        _write(folder / ABOUT, json.dumps(about, ensure_ascii=False, indent=2) + "\n")

    def _vault(self, folder: Path) -> int:
        def lines() -> Iterator[dict[str, Any]]:
            for memory, vector in self._rooms.vault.everything(self._caller):
                said = {name: getattr(memory, name) for name in ("key", "content", "tags", "created_at", "updated_at")}
                yield said | ({"embedding": vector} if vector else {})

        return _write_lines(folder / VAULT, lines())

    def _notes(self, folder: Path) -> int:
        count = 0
        for note, tags, has_own_title in self._rooms.notes.everything(self._caller):
            place = folder.joinpath("notes", _name(note.namespace), *map(_name, filter(None, note.folder.split("/"))))
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
            name = f"{_name(note.title)}-{note.id[:8]}.md"
            target = place / name if not (place / name).exists() else place / f"{_name(note.title)}-{note.id}.md"
            _write(target, note_file(note, tags, has_own_title=has_own_title))
            count += 1
        return count

    def _links(self, folder: Path) -> int:
        names = ("source_id", "target_id", "kind", "created_at")
        found = (dict(zip(names, link, strict=True)) for link in self._rooms.notes.every_link(self._caller))
        return _write_lines(folder / "notes" / LINKS, found)

    def _stores(self, folder: Path) -> int:
        count = 0
        for store in self._rooms.stores.all(self._caller):
            if not store.folder.is_dir():
                if not store.is_ours:
                    self._left_out.append(LeftOut(f"stores/{store.name}", f"{store.folder} is not there"))
                continue
            copy = folder / "stores" / store.name
            copy.mkdir(mode=0o700, parents=True, exist_ok=True)
            tree = Tree(store.folder, copy, f"stores/{store.name}", not store.is_ours, hidden=False)
            tree.follow()
            self._left_out += tree.left_out
            count += len(tree.files())
        return count

    def _graph(self, folder: Path) -> int:
        projects = {project.name: project for project in self._rooms.graph.every_project(self._caller)}
        files = _file_names(projects)
        for name, project in projects.items():
            place = folder / "graph" / f"{files[name]}.jsonl"
            place.parent.mkdir(mode=0o700, exist_ok=True)
            with place.open("w", encoding="utf-8", newline="\n") as out:
                out.writelines(exchange.lines(self._rooms.graph.everything_of(self._caller, project)))
        fields = ("name", "description", "status", "created_at")
        said = ({f: getattr(one, f) for f in fields} | _named(one.name, files) for one in projects.values())
        return _write_lines(folder / "graph" / PROJECTS, said)

    def _portals(self, folder: Path) -> int:
        portals = self._rooms.portals.all(self._caller)
        for portal in portals:
            place = folder / "portals" / portal.address.namespace
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
            name = f"portals/{portal.address.namespace}/{portal.address.portal}"
            try:
                tables = self._rooms.portals.transfers.back_up(portal, place / f"{portal.address.portal}.db")
            except AppError as exc:
                self._left_out.append(LeftOut(f"{name}.db", exc.message))
                continue
            inside = place / portal.address.portal
            inside.mkdir(mode=0o700)
            for table in tables:
                for format_ in TABLE_FORMATS:
                    try:
                        target = inside / f"{table.name}.{format_}"
                        self._rooms.portals.transfers.export_to(portal, table.name, target, format_)
                    except AppError as exc:
                        self._left_out.append(LeftOut(f"{name}/{target.name}", exc.message))
        return len(portals)


def note_file(note: Note, tags: list[Tag], *, has_own_title: bool) -> str:
    """A note as a markdown file. `read_note` reads it again, to the letter."""
    said: dict[str, Any] = {
        "id": note.id,
        "title": note.title if has_own_title else None,
        "namespace": note.namespace,
        "folder": note.folder or None,
        "tags": [tag.name for tag in tags if tag.origin == "user"] or None,
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
    front = yaml.safe_dump(
        {name: value for name, value in said.items() if value is not None}, allow_unicode=True, sort_keys=False
    )
    return f"---\n{front}---\n\n{note.content}\n"


def _file_names(projects: Iterable[str]) -> dict[str, str]:
    """By its name, the name of each project's file. The two differ only for projects of other programs."""
    files: dict[str, str] = {}
    taken = {Path(PROJECTS).stem}
    for name in sorted(projects, key=lambda name: (_name(name) != name, name)):
        plain = _name(name)
        choices = itertools.chain([plain], (f"{plain} {number}" for number in itertools.count(2)))
        files[name] = next(one for one in choices if one.casefold() not in taken)
        taken.add(files[name].casefold())
    return files


def _named(project: str, files: Mapping[str, str]) -> dict[str, str]:
    return {} if files[project] == project else {"file": files[project]}


def _name(text: str) -> str:
    """A part of a path that every system takes."""
    plain = re.sub(r"[^\w .,()+@=-]", "_", unicodedata.normalize("NFC", text))
    plain = re.sub(r"\s+", " ", plain)[:MAX_NAME_CHARS].strip(" .")
    while len(plain.encode()) > 3 * MAX_NAME_CHARS:
        plain = plain[:-1]
    return plain or "_"


def _write(path: Path, text: str) -> None:
    with path.open("w", encoding="utf-8", newline="") as out:
        out.write(text)


def _write_lines(path: Path, objects: Iterator[dict[str, Any]]) -> int:
    path.parent.mkdir(mode=0o700, exist_ok=True)
    count = 0
    with path.open("w", encoding="utf-8", newline="\n") as out:
        for one in objects:
            out.write(json.dumps(one, ensure_ascii=False) + "\n")
            count += 1
    return count


def _check_target(target: Path) -> None:
    if not target.parent.is_dir():
        raise NotFound(f"There is no folder {target.parent}. Make it first.")
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise Conflict(f"{target} is there already. Choose a new folder, or an empty one.")
