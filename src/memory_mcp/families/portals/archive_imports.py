"""Portal files (db): their tables into a portal that exists, or a whole portal from its file."""

from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path

from memory_mcp.cancellation import check_not_cancelled
from memory_mcp.engines.chdb import archive
from memory_mcp.engines.chdb.frames import MARK_COLUMN
from memory_mcp.engines.isolation.worker_process import WorkerProcess
from memory_mcp.engines.portal_engine import EngineError, PortalEngine
from memory_mcp.errors import Invalid, NotFound
from memory_mcp.families.portals import inference, storage
from memory_mcp.families.portals.address import TABLE, column_name
from memory_mcp.families.portals.import_context import ImportTarget, SourceFile, new_table_name
from memory_mcp.families.portals.journal import StagedTable
from memory_mcp.families.portals.model import LABEL_KEYS, MAX_DESCRIPTION_CHARS, METADATA, NewColumn, Table
from memory_mcp.families.portals.storage import RESTORED


def import_archive(target: ImportTarget, source: SourceFile, only: str | None) -> dict[str, int]:
    """Import the tables of a portal file, or one of them: all or nothing. Other tables of the portal stay. Returns how
    many rows each table has in the file."""
    engine, path, stopping = target.engine, source.path, source.limited_engine(target.engine)
    try:
        source.worker.call(archive.verify, path)
        engine.check_archive(path.name)
    except archive.DamagedArchive as exc:
        raise Invalid(f"source: {exc} Nothing was changed.", field="source") from exc
    target.drop_leftovers()
    try:
        storage.restore(stopping, str(path), RESTORED)
        engine.check_restored(RESTORED)
        _check_restored_size(engine, source)
        found = storage.restored_tables(engine, RESTORED)
        if only is not None and only not in found:
            raise NotFound(f"table: the file has no table {only!r}. It has: {', '.join(found)}.", field="table")
        chosen = {name: columns for name, columns in found.items() if only in (None, name)}
        target.check_conflicts(chosen, target.tables)
        extended = target.tables if target.on_conflict == "append" else {}
        for name, columns in chosen.items():
            _check_table(stopping, name, columns, extended.get(name))
        for name, columns in chosen.items():
            if storage.has_dynamic_columns(columns.values()):
                storage.rewrite_dynamic_columns(stopping, RESTORED, name)
        counts = {name: storage.row_count(engine, name, RESTORED) for name in chosen}
        staged = [_stage_table(target, stopping, name, columns, extended.get(name)) for name, columns in chosen.items()]
        about = _labels_of_file(stopping)
        check_not_cancelled(source.cancelled)
        target.rename_staged(staged)
        with suppress(EngineError):  # the tables have their names: they count
            target.set_missing_labels(about)
        return counts
    except archive.DamagedArchive as exc:
        raise Invalid(f"source: {exc} Nothing was changed.", field="source") from exc
    except EngineError as exc:
        raise Invalid("source: the tables in this portal file cannot be opened.", field="source") from exc
    finally:
        target.drop_leftovers()


def _labels_of_file(engine: PortalEngine) -> dict[str, str]:
    """The name and description in the metadata of a restored portal; empty if another program wrote them differently or
    left them out."""
    try:
        return storage.foreign_metadata(engine, RESTORED, LABEL_KEYS, MAX_DESCRIPTION_CHARS)
    except EngineError:
        return {}


def _check_restored_size(engine: PortalEngine, source: SourceFile) -> None:
    """Raises LimitExceeded for tables that hold too much: the file is compressed."""
    about = storage.restored_size(engine, RESTORED)
    source.check_amount(about.rows, about.bytes)


def restore_archive(engine: PortalEngine, worker: WorkerProcess, path: Path, mark: int | None) -> int:
    """Create a portal from its file, metadata included, where there is none. Its rows get the mark; without one they
    keep theirs. Returns how many rows it holds."""
    try:
        worker.call(archive.verify, path)
        engine.check_archive(path.name)
        storage.drop_unfinished(engine)
        storage.restore(engine, str(path), RESTORED)
        engine.check_restored(RESTORED)
        found = storage.restored_tables(engine, RESTORED)
        for name, columns in found.items():
            _check_table(engine, name, columns, None)
        for name in (METADATA, *found):
            storage.rewrite_dynamic_columns(engine, RESTORED, name)
        for name, columns in found.items():
            _mark_rows(engine, name, columns, mark)
        with ExitStack() as undoing:
            for name in (METADATA, *found):
                undoing.enter_context(storage.adopt_restored(engine, RESTORED, name))
        return sum(storage.row_count(engine, name) for name in found)
    except archive.DamagedArchive as exc:
        raise Invalid(str(exc)) from exc
    except EngineError as exc:
        raise Invalid("The tables in this portal file cannot be opened.") from exc
    finally:
        storage.drop_unfinished(engine)


def _check_table(engine: PortalEngine, table: str, columns: Mapping[str, str], known: Table | None) -> None:
    """Raises Invalid for a table that cannot be imported whole. Call it before anything is changed."""
    if not TABLE.fullmatch(table) or any(column_name(name) != name for name in columns if name != MARK_COLUMN):
        raise Invalid(
            f"source: a table cannot be called {table!r}, or one of its columns has a name that no column can have.",
            field="source",
        )
    if not storage.is_whole(engine, table, RESTORED):
        raise Invalid(f"source: the table {table!r} in this portal file is damaged.", field="source")
    if MARK_COLUMN in columns and known is not None and storage.has_marks(engine, table):
        raise Invalid(
            f"source: {table!r} in this portal file has a column {MARK_COLUMN!r} of its own, and that table here "
            "has the one in which this server numbers writes. Nothing was changed. Give onConflict replace, or import "
            "the file to another portal.",
            field="source",
        )
    for name, kind in columns.items():
        there = known.column(name) if known else None
        if there is not None and there.type not in (kind, f"Nullable({kind})"):
            raise Invalid(
                f"source: {name!r} of {table!r} is {kind} in the file and {there.type} here. Nothing was changed.",
                field="source",
            )
    key = known.column(inference.KEY) if known else None
    if key is not None and key.primary and key.name not in columns and not storage.has_default(engine, table, key.name):
        raise Invalid(
            f"source: every record of {table!r} needs an {key.name!r}, and those in the file have none. Nothing was "
            "changed.",
            field="source",
        )


def _mark_rows(engine: PortalEngine, table: str, columns: Mapping[str, str], mark: int | None) -> None:
    """Give the rows of a restored table the mark, if there is one, unless a column of its own has that name."""
    if mark is not None and MARK_COLUMN not in columns:
        storage.mark_all(engine, RESTORED, table, mark)


def _stage_table(
    target: ImportTarget, stopping: PortalEngine, table: str, columns: Mapping[str, str], known: Table | None
) -> StagedTable:
    """Give a restored table a temporary name. If it is `known`, that table gets the rows of both."""
    engine, name = target.engine, new_table_name()
    if known is None:
        _mark_rows(stopping, table, columns, target.mark)
        storage.move_restored(engine, RESTORED, table, name)
        return target.staged_table(name, table)
    storage.create_like(engine, name, table)
    storage.link_rows(engine, table, name)
    if new := [NewColumn(*column) for column in columns.items() if known.column(column[0]) is None]:
        storage.add_columns(engine, name, new)
    mark = target.mark if storage.add_marks(engine, name) else None
    added = new_table_name()
    storage.create_like(engine, added, name)
    storage.copy_rows(stopping, RESTORED, table, added, list(columns), mark)
    storage.move_rows(engine, name, added)
    return target.staged_table(name, table)
