"""Exporting, importing and checking stores."""

import shlex
from collections.abc import Iterator
from pathlib import Path

from memory_mcp.engines.files import data_directory
from memory_mcp.engines.files.atomic_write import UNFINISHED
from memory_mcp.engines.files.file_tree import Tree
from memory_mcp.errors import AppError
from memory_mcp.families.maintenance import ExportFolder, FamilyMaintenance, Finding, ImportFolder, Inspection
from memory_mcp.families.stores import paths
from memory_mcp.families.stores.folder_scan import MAX_FILE_BYTES
from memory_mcp.families.stores.model import IncomingFile, Store
from memory_mcp.families.stores.operations import Stores
from memory_mcp.families.stores.registry import OURS, Registry

FOLDER = "stores"


def _export(stores: Stores, target: ExportFolder) -> int:
    count = 0
    for store in stores.all(target.caller):
        if not store.folder.is_dir():
            if not store.is_ours:
                target.leave_out(f"{FOLDER}/{store.name}", f"{store.folder} is not there")
            continue
        copy = target.make(FOLDER, store.name)
        tree = Tree(store.folder, copy, f"{FOLDER}/{store.name}", not store.is_ours, hidden=False)
        tree.update_copy(target.report_progress)
        target.left_out += tree.left_out
        count += len(tree.files())
    return count


def _import(stores: Stores, source: ImportFolder) -> None:
    """A file is identified by its path."""
    for folder in sorted(path for path in (source.path / FOLDER).glob("*") if path.is_dir()):
        with source.one(source.shown(folder)):
            paths.check_store(folder.name)
            for path in source.files(FOLDER, folder.name):
                if not path.is_symlink() and path.name != "index.yaml":
                    with source.one(source.shown(path)):
                        _import_file(stores, source, folder, path)
            if not source.dry_run and folder.name in {one.name for one in stores.all(source.caller)}:
                stores.reindex(source.caller, folder.name, source.report_progress)


def _import_file(stores: Stores, source: ImportFolder, folder: Path, path: Path) -> None:
    with path.open("rb") as file:
        content = file.read(MAX_FILE_BYTES + 1)
    name = path.relative_to(folder).as_posix()
    incoming = IncomingFile(name, content, path.stat().st_mtime_ns, is_foreign=False)
    arrival = stores.import_file(source.caller, folder.name, incoming, dry_run=source.dry_run)
    source.result.count("files", new=arrival == "new")


def _check(inspection: Inspection) -> Iterator[Finding]:
    for tenant in inspection.tenants:
        registry, place = Registry(tenant.folder), f"{tenant.prefix}stores.yaml"
        try:
            names = registry.names()
        except AppError as exc:
            yield Finding("store", place, "problem", exc.message)
            continue
        for name in names:
            inspection.checked["stores"] += 1
            try:
                yield from _check_store(registry.get(name), place)
            except AppError as exc:
                yield Finding("store", place, "problem", exc.message)


def _check_store(store: Store, place: str) -> Iterator[Finding]:
    if not store.folder.is_dir() and not store.is_ours:
        message = (
            f"the folder of {store.name!r}, {store.folder}, is not there; bring it back, or "
            f"`memory-mcp stores remove {shlex.quote(store.name)}`"
        )
        yield Finding("store", place, "problem", message)
    elif below := data_directory.find_below(store.folder.resolve()):
        message = (
            f"the folder of {store.name!r} holds a data directory of Memory MCP, {below}, which is left out; give the "
            "store a folder that does not hold it"
        )
        yield Finding("store", place, "notice", message)


def _leftovers(folder: Path) -> Iterator[Path]:
    return (folder / OURS).rglob(f".*{UNFINISHED}")


MAINTENANCE = FamilyMaintenance[Stores](
    exports={"stores": _export}, imports={"stores": _import}, check=_check, leftovers=_leftovers
)
