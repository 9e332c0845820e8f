"""Exporting, importing and checking knowledge graphs."""

import itertools
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from memory_mcp.clock import instant, stamp
from memory_mcp.engines.files import compressed
from memory_mcp.engines.sqlite import integrity
from memory_mcp.errors import AppError, Conflict, Invalid
from memory_mcp.families.graph import exchange, storage
from memory_mcp.families.graph.model import Imported, NamedRelation, NewEntity, Project
from memory_mcp.families.graph.operations import Graph
from memory_mcp.families.graph.schema import PROJECT_FILE, REGISTRY_FILE
from memory_mcp.families.maintenance import (
    RESTORE_HINT,
    DatabaseFile,
    ExportFolder,
    FamilyMaintenance,
    Finding,
    ImportFolder,
    Inspection,
    Tenant,
    file_name,
    write_lines,
)

FOLDER, PROJECTS = "graph", "_projects.jsonl"  # no project can have that name
PROJECT_FIELDS = ("name", "description", "status", "created_at")


def _export(graph: Graph, target: ExportFolder) -> int:
    projects = {project.name: project for project in graph.every_project(target.caller)}
    files = _file_names(projects)
    for name, project in projects.items():
        path = target.make(FOLDER) / f"{files[name]}.jsonl"
        with path.open("w", encoding="utf-8", newline="\n") as out:
            everything = target.track(graph.everything_of(target.caller, project), f"graph {name}")
            out.writelines(exchange.lines(everything))
    fields = (
        {field: getattr(one, field) for field in PROJECT_FIELDS} | _file_of(one.name, files)
        for one in projects.values()
    )
    return write_lines(target.path / FOLDER / PROJECTS, fields)


def _file_names(projects: Iterable[str]) -> dict[str, str]:
    """By its name, the name of each project's file. The two differ only for projects of other programs."""
    files: dict[str, str] = {}
    taken = {Path(PROJECTS).stem}
    for name in sorted(projects, key=lambda name: (file_name(name) != name, name)):
        plain = file_name(name)
        choices = itertools.chain([plain], (f"{plain} {number}" for number in itertools.count(2)))
        files[name] = next(one for one in choices if one.casefold() not in taken)
        taken.add(files[name].casefold())
    return files


def _file_of(project: str, files: Mapping[str, str]) -> dict[str, str]:
    return {} if files[project] == project else {"file": files[project]}


def _import(graph: Graph, source: ImportFolder) -> None:
    """Entities, observations and relations are identified by their content."""
    about = {str(fields.get("file", fields.get("name"))): fields for _, fields in source.lines(FOLDER, PROJECTS)}
    known = {project.name: project for project in graph.every_project(source.caller)}
    for path in source.files(FOLDER):
        if path.suffix != ".jsonl" or path.name == PROJECTS:
            continue
        with source.one(source.shown(path)):
            file = path.name.removesuffix(".jsonl")
            fields = about.get(file, {})
            name = str(fields.get("name", file))
            _import_project(graph, source, name, known.get(name), fields, path)


def _import_project(
    graph: Graph, source: ImportFolder, name: str, there: Project | None, about: dict[str, Any], path: Path
) -> None:
    entities, relations = _read(path)
    is_archived = there is not None and there.status == "archived"
    any_name, created_at = "name" in about, _created_at(about)
    if is_archived or source.dry_run:
        added = graph.compare_graph(source.caller, name, entities, relations, archived=is_archived, any_name=any_name)
    else:
        description = str(about.get("description") or "")
        added = graph.add_graph(
            source.caller, name, entities, relations, description, any_name=any_name, created_at=created_at
        )
    if is_archived and (added.entities or added.observations or added.relations):
        raise Conflict(f"the project {name!r} is archived here: restore it, and import again")
    _count(source, name, added, is_new=there is None)
    if there is None and about.get("status") == "archived" and not source.dry_run:
        graph.archive_project(source.caller, name)


def _created_at(about: dict[str, Any]) -> str | None:
    """As the registry has times. Raises ValueError for a text that is no time."""
    return stamp(instant(str(about["created_at"]))) if about.get("created_at") is not None else None


def _count(source: ImportFolder, name: str, added: Imported, *, is_new: bool) -> None:
    source.result.count("projects", new=is_new)
    for what in ("entities", "observations", "relations"):
        source.result.count(what, new=True, by=getattr(added, what))
    source.result.count("entities and relations", new=False, by=added.known)
    if added.dangling:
        message = f"{added.dangling} relations name unknown entities"
        source.result.leave_out(f"{FOLDER}/{name}.jsonl", message)


def _read(path: Path) -> tuple[list[NewEntity], list[NamedRelation]]:
    """Raises Invalid for a line that is neither an entity nor a relation."""
    with path.open("rb") as file:
        found = list(exchange.read(compressed.lines(file)))
    for number, one in found:
        if isinstance(one, Invalid):
            raise Invalid(f"line {number}: {one.message}") from one
    entities = [one for _, one in found if isinstance(one, NewEntity)]
    return entities, [one for _, one in found if isinstance(one, NamedRelation)]


def _check(inspection: Inspection) -> Iterator[Finding]:
    """Compare the projects of the registry with the files. Leftovers of a crash are repaired when a graph is opened."""
    for tenant in inspection.tenants:
        [registry] = tenant.files(REGISTRY_FILE)
        try:
            if not _is_current(registry):
                continue
            with inspection.open(registry) as db, db.read() as tx:
                known = {project.id: project for project in storage.projects(tx, None)}
        except AppError:  # found with the databases
            continue
        inspection.checked["projects"] += len(known)
        yield from _compare(tenant, registry.name, known)


def _is_current(file: DatabaseFile) -> bool:
    return file.path.exists() and integrity.is_current(file.path, file.kind.schema, file.lock)


def _compare(tenant: Tenant, registry: str, known: Mapping[str, Project]) -> Iterator[Finding]:
    files = {one.path.stem: one for one in tenant.files(PROJECT_FILE)}
    for id_, project in known.items():
        if id_ not in files:
            message = f"the file of the project {project.name!r} is gone. {RESTORE_HINT}"
            yield Finding("project", registry, "problem", message)
    for id_, one in files.items():
        if id_ not in known:
            message = "no project has this file; move it away if it is not needed"
            yield Finding("project", one.name, "problem", message)


MAINTENANCE = FamilyMaintenance[Graph](exports={"graph": _export}, imports={"graph": _import}, check=_check)
