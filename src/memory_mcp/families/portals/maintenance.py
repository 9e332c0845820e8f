"""Exporting, importing and checking portals."""

from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

from memory_mcp.caller import Caller
from memory_mcp.changes import Changes
from memory_mcp.engines.chdb import process, sandbox
from memory_mcp.engines.files.atomic_write import UNFINISHED
from memory_mcp.errors import AppError, Invalid
from memory_mcp.families.maintenance import (
    RESTORE_HINT,
    ExportFolder,
    ExportUndo,
    FamilyMaintenance,
    Finding,
    ImportFolder,
    Inspection,
)
from memory_mcp.families.portals.address import NAME, SCHEME, Address
from memory_mcp.families.portals.composition import create_portals
from memory_mcp.families.portals.folders import PORTALS, PortalFolder, PortalFolders
from memory_mcp.families.portals.model import FileFormat
from memory_mcp.families.portals.operations import STALE_DESCRIPTION, Portals
from memory_mcp.progress import track
from memory_mcp.services.access import folder_of
from memory_mcp.system.installation import install_command

TABLE_FORMATS: tuple[FileFormat, ...] = ("parquet", "csv")


def _export(portals: Portals, target: ExportFolder) -> int:
    folders = portals.all(target.caller)
    for folder in target.track(folders, "portals", len(folders)):
        _export_portal(portals, folder, target)
    return len(folders)


def _export_portal(portals: Portals, portal: PortalFolder, target: ExportFolder) -> None:
    address = portal.address
    name = f"{PORTALS}/{address.namespace}/{address.portal}"
    try:
        copy = target.make(PORTALS, address.namespace) / f"{address.portal}.db"
        tables = portals.exports.back_up(portal, copy, is_paced=True)
    except AppError as exc:
        target.leave_out(f"{name}.db", exc.message)
        return
    inside = target.make(PORTALS, address.namespace, address.portal)
    for table in tables:
        for format_ in TABLE_FORMATS:
            path = inside / f"{table.name}.{format_}"
            try:
                portals.exports.export_to(portal, table.name, path, format_)
            except AppError as exc:
                target.leave_out(f"{name}/{path.name}", exc.message)


def _import(portals: Portals, source: ImportFolder) -> None:
    """A portal is identified by its address."""
    there = {portal.address for portal in portals.all(source.caller)}
    for path, named in portal_files(source):
        with source.one(source.shown(path)):
            address = checked(named)
            is_new = address not in there
            if is_new and not source.dry_run:
                portals.imports.import_portal(source.caller, address, path)
            source.result.count("portals", new=is_new)


def portal_files(source: ImportFolder) -> Iterator[tuple[Path, Address]]:
    """The files of portals in an export, each with the address that its path means."""
    for path in source.files(PORTALS):
        if path.suffix == ".db" and path.parent.parent == source.path / PORTALS:
            yield path, Address(path.parent.name, path.stem)


def checked(address: Address) -> Address:
    """Raises Invalid for an address that no portal can have."""
    if not (NAME.fullmatch(address.namespace) and NAME.fullmatch(address.portal)):
        raise Invalid("no portal has such a name")
    return address


def versions(portals: Portals, caller: Caller) -> dict[str, str]:
    return {folder.address.portal_uri: folder.version() for folder in portals.all(caller)}


def is_in_export(export: Path, uri: str) -> bool:
    """Another client may create a portal during an import."""
    return (export / PORTALS / f"{uri.removeprefix(SCHEME)}.db").is_file()


def _delete(portals: Portals, caller: Caller, uri: str) -> None:
    portals.delete(caller, uri, None, None, confirm=True)


def _check(inspection: Inspection) -> Iterator[Finding]:
    found = [
        (f"{tenant.prefix}{PORTALS}/{portal.address.namespace}/{portal.address.portal}", portal)
        for tenant in inspection.tenants
        for portal in PortalFolders(tenant.folder).all()
    ]
    if inspection.settings.portals_url:
        message = "those on the ClickHouse server of --portals-url are not checked: use its CHECK TABLE"
        yield Finding("portal", PORTALS, "notice", message)
        if not found:
            return
    if not process.is_installed():
        missing = f"chDB is not installed. To have portals: {install_command('portals')}"
        yield Finding("portal", PORTALS, "problem" if found else "notice", missing)
        return
    if lacks := sandbox.missing():
        message = f"this system lacks {' and '.join(lacks)}: engines are confined by their SQL policy and role alone"
        yield Finding("portal", PORTALS, "notice", message)
    if not found:
        return
    folders = partial(folder_of, inspection.settings.data_dir)
    in_files = inspection.settings.model_copy(update={"portals_url": None})
    with (
        closing(Changes()) as changes,
        closing(create_portals(in_files, folders, changes, inspection.clock)) as portals,
    ):
        for place, portal in track(found, "portals", len(found), inspection.report_progress):
            inspection.checked["portals"] += 1
            faults = portals.faults(portal)
            if faults == [STALE_DESCRIPTION]:
                finding = Finding("portal", place, "problem", STALE_DESCRIPTION)
                yield inspection.repair_finding(finding, partial(portals.describe_again, portal))
                continue
            for fault in faults:
                yield Finding("portal", place, "problem", f"{fault}. {RESTORE_HINT}")


def _leftovers(folder: Path) -> Iterator[Path]:
    for portal in PortalFolders(folder).all():
        yield from portal.path.glob(f".*{UNFINISHED}")
        yield from (portal.path / "staging").glob("*")


MAINTENANCE = FamilyMaintenance[Portals](
    exports={"portals": _export},
    imports={"portals": _import},
    import_undo=ExportUndo(versions, is_in_export, _delete),
    check=_check,
    leftovers=_leftovers,
)
