"""The memories in a data export of claude.ai (Settings, Privacy, Export data).

There is no published schema; several public readers of exports agree on this content:

- until 2026 one zip with `memories.json`: `[{"conversations_memory": markdown, "project_memories": {project: markdown},
  "account_uuid": id}]`, and the projects' names in `projects.json` or `projects/<uuid>.json`
  (https://github.com/Sinity/polylogue and others);
- since 2026 several zips, of which `memories-000.zip` has `memories/<account>.json`, one such object each, with
  `memory_files: [{"path", "content", "updated_at"}]` too, and `projects-000.zip` the projects.

A list that Claude printed (text_list.py) works too.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from memory_mcp.engines.files.compressed import OnBytes
from memory_mcp.errors import Invalid
from memory_mcp.importers import archives, bounds, text_list
from memory_mcp.importers.archives import Member
from memory_mcp.importers.model import FoundNote, ImportProblem
from memory_mcp.text.json_counts import has_too_many_containers

KEYS = ("conversations_memory", "project_memories", "memory_files")
NO_MEMORIES = (
    "The export has conversations of Claude, but no memories. Ask Claude to list every memory that it has of you, one "
    "per line, and import that list as a text file."
)
MAX_FILE_BYTES = 64 * 1024 * 1024
MAX_CONTAINERS = 1_000_000  # lists and objects of a file, each of which takes a hundred bytes of memory
_INNER = re.compile(r"(?:memories|projects)(?:-\d+)?(?: ?\(\d+\))?\.zip", re.IGNORECASE)
_HEADING = re.compile(r"^(?:#{1,6}\s+(.+?)|\*\*(.+?):?\*\*:?)\s*$")


def read(path: Path, on_bytes: OnBytes = archives.ignore_bytes) -> Iterator[FoundNote | ImportProblem]:
    """Raises Invalid before the first memory if the export has no memories of Claude."""
    with archives.open_export(path, on_bytes, lambda name: bool(_INNER.fullmatch(name))) as members:
        if len(members) == 1 and members[0].base.endswith(text_list.SUFFIXES):
            yield from text_list.read(members[0])
            return
        kept = [one for one in members if _holds_memories(one) or len(members) == 1]
        if not kept and {"conversations.json", "users.json"} <= {one.base for one in members}:
            yield ImportProblem("conversations.json", NO_MEMORIES, "left_out")
            return
        if not kept:
            raise Invalid(f"{path} has no memories.json or memories/ in it. Is it a data export of claude.ai?")
        accounts = [(one.name, account) for one in kept for account in _accounts(one)]
        if not accounts:
            raise Invalid(f"{path} has none of {', '.join(KEYS)}. Is it a data export of claude.ai?")
        names = dict(project for one in members if _holds_projects(one) for project in _projects(one))
        for where, account in accounts:
            yield from _memories(where, account, names)


def _holds_memories(member: Member) -> bool:
    return member.base == "memories.json" or (
        member.base.endswith(".json") and "memories" in member.name.split("/")[:-1]
    )


def _holds_projects(member: Member) -> bool:
    return member.base == "projects.json" or (
        member.base.endswith(".json") and "projects" in member.name.split("/")[:-1]
    )


def _json(member: Member) -> Any:
    with member.open() as stream:
        data = stream.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES or has_too_many_containers(data, MAX_CONTAINERS):
        return None
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def _list(value: Any) -> list[dict[str, Any]]:
    return [one for one in (value if isinstance(value, list) else [value]) if isinstance(one, dict)]


def _accounts(member: Member) -> list[dict[str, Any]]:
    return [one for one in _list(_json(member)) if any(key in one for key in KEYS)]


def _projects(member: Member) -> Iterator[tuple[str, str]]:
    for one in _list(_json(member)):
        if isinstance(one.get("uuid"), str) and isinstance(one.get("name"), str):
            yield one["uuid"], one["name"]


def _memories(where: str, account: dict[str, Any], names: dict[str, str]) -> Iterator[FoundNote | ImportProblem]:
    whose = str(account.get("account_uuid") or "")
    yield from _sections(where, f"{whose}/conversations", account.get("conversations_memory"), "", {})
    projects = account.get("project_memories")
    for id_, text in projects.items() if isinstance(projects, dict) else ():
        name = names.get(id_, "")
        noted = {"project_id": id_} | ({"project": name} if name else {})
        yield from _sections(f"{where}, project {name or id_}", f"{whose}/projects/{id_}", text, name or id_, noted)
    files = account.get("memory_files")
    for number, file in enumerate(files if isinstance(files, list) else (), start=1):
        yield _file(f"{where}, file {number}", whose, file)


def _sections(
    where: str, id_: str, text: object, folder: str, noted: dict[str, str]
) -> Iterator[FoundNote | ImportProblem]:
    """One note for each section: Claude writes one page about many subjects, and searches are about one."""
    if text is None or text == "":
        return
    if not isinstance(text, str):
        yield ImportProblem(where, "It is not text.")
        return
    seen: dict[str, int] = {}
    for heading, body in split(text):
        key = heading.casefold()
        seen[key] = seen.get(key, 0) + 1
        number = f"#{seen[key]}" if seen[key] > 1 else ""
        yield bounds.note(
            f"{where}, {heading or 'its beginning'}",
            body,
            id_=f"{id_}/{key}{number}",
            title=heading or None,
            folder=folder,
            metadata=noted,
        )


def split(text: str) -> list[tuple[str, str]]:
    """(heading, text) of each section that is not empty; the first may have no heading."""
    parts: list[tuple[str, list[str]]] = [("", [])]
    for line in text.splitlines():
        found = _HEADING.match(line.strip())
        if found:
            parts.append(((found[1] or found[2]).strip(" *"), []))
        else:
            parts[-1][1].append(line)
    return [(heading, body) for heading, lines in parts if (body := "\n".join(lines).strip())]


def _file(where: str, whose: str, file: object) -> FoundNote | ImportProblem:
    if not isinstance(file, dict) or not isinstance(file.get("path"), str):
        return ImportProblem(where, "It is not a memory file: it has no path.")
    path = file["path"].strip("/")
    folder, _, name = path.rpartition("/")
    return bounds.note(
        f"{where} ({path})",
        file.get("content"),
        id_=f"{whose}/files/{path}",
        title=name.removesuffix(".md"),
        folder=folder,
        metadata={"path": file["path"]},
        created_at=file.get("created_at"),
        updated_at=file.get("updated_at"),
    )
