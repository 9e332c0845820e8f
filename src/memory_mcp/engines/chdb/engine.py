"""chDB on one portal's folder: statements of the server, queries of callers, files."""

import json
import os
import shutil
import threading
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from memory_mcp.engines.chdb import archive, archive_statements, frames, sql_policy
from memory_mcp.engines.chdb.connections import ChdbConnection, Reader
from memory_mcp.engines.chdb.deadlines import EngineClient
from memory_mcp.engines.chdb.paced_file import WriteRate, open_paced
from memory_mcp.engines.chdb.parameters import literal
from memory_mcp.engines.chdb.query_checks import Inspector, QueryChecks
from memory_mcp.engines.chdb.sql_policy import ATTACHED_PREFIX, DATABASE

_COUNT_FORMATS = {  # how the rows of a file are counted without parsing their values
    "json": "'JSONAsString', 'row String'",
    "lines": "'JSONAsString', 'row String'",
    "CSVWithNames": "'CSVWithNames', 'row String'",
}
MAX_TREE_BYTES = 64 * 1024 * 1024
_SCHEMA_CHANGES = {"CREATE", "ALTER", "DROP", "RENAME"}  # the first words of statements that change tables
_UNFINISHED_REPLACE = "_tmp_replace_"  # prefix of the names of tables that CREATE OR REPLACE has not finished
WRITER_GRACE_S = 5.0  # for the statement that writes, before an engine ends itself
MAX_THREADS = min(4, os.cpu_count() or 1)  # for one statement of the server
MAX_STAGED_AGE_S = 3600.0  # of a file in staging
HERE = Path(__file__).parent


class Engine:
    """chDB on one folder. One statement writes at a time; readers go side by side."""

    def __init__(self, folder: Path) -> None:
        import chdb

        self._chdb = chdb
        self._folder = folder
        self._address = f"{folder / 'db'}?config-file={HERE / 'config.xml'}&backups.allowed_path={folder / 'staging'}"
        self._owner = ChdbConnection(self._as_owner)
        self._writing = threading.Lock()
        self._exported = WriteRate()
        self._writer: EngineClient | None = None  # the client, for a statement that stops when it leaves
        self._inspector = Inspector(ChdbConnection(self._as_owner))
        self._clean()
        self._checks = QueryChecks(self._inspector)

    def _clean(self) -> None:
        """Remove unfinished tables and files of stopped servers and engines."""
        attached = f"SELECT name FROM system.databases WHERE startsWith(name, '{ATTACHED_PREFIX}')"
        for name in self._inspector.read(attached).split():
            self._owner.run(f"DROP DATABASE IF EXISTS {name} SYNC", {})
        for name in self._inspector.tables(DATABASE):
            if name.startswith((_UNFINISHED_REPLACE, frames.UNFINISHED_COPY)):
                self._owner.run(f"DROP TABLE IF EXISTS {name} SYNC", {})
        for path in (self._folder / "staging").iterdir():
            with suppress(OSError):  # a server has removed it
                if path.lstat().st_mtime < time.time() - MAX_STAGED_AGE_S:
                    _remove(path)

    def run(self, sql: str, parameters: dict[str, Any], data: bytes, client: EngineClient | None = None) -> bytes:
        """One of our own statements. `data` is what an INSERT is to insert. It does not start if its client has left:
        others may hold the portal's lock by then."""
        with self._writing, self._clear_cache_after(sql.split(maxsplit=1)[0] in _SCHEMA_CHANGES):
            if client:
                client.check_waiting()
            return self._owner.run(sql, parameters, data)

    def run_for(self, client: EngineClient, sql: str, parameters: dict[str, Any], settings: Mapping[str, int]) -> bytes:
        """One of our own statements that stops, or does not start, when its client leaves. `settings` limit it."""
        with (
            ChdbConnection(partial(self._as_owner, client.tag, settings)) as connection,
            self._writing,
            self._clear_cache_after(sql.split(maxsplit=1)[0] in _SCHEMA_CHANGES),
        ):
            client.check_waiting()
            self._writer = client
            try:
                return connection.run(sql, parameters)
            finally:
                self._writer = None

    def run_on_new_connection(self, client: EngineClient, sql: str, *, stops: bool) -> bytes:
        """A statement that needs a connection of its own: RESTORE after others fails on theirs.

        `stops`: whether the statement stops when its client leaves.
        """
        with (
            ChdbConnection(partial(self._connect, client.tag if stops else "")) as connection,
            self._writing,
            self._clear_cache_after(True),
        ):
            client.check_waiting()
            return connection.run(sql, {})

    def back_up(
        self,
        client: EngineClient,
        sql: str,
        path: str,
        bytes_per_s: int | None,
        about: Mapping[str, Any] | None,
        *,
        stops: bool,
    ) -> bytes:
        """Run a BACKUP to a file in staging, on a connection of its own: after others it fails on theirs. With `about`
        it is sealed as a portal file.

        It changes nothing, so other statements go on beside it. It is written at the rate of exports, unless that is
        None or all of it fits into what exports may write at once.
        """
        with self._staging(client, path):
            with ChdbConnection(partial(self._connect, client.tag if stops else "")) as connection:
                if bytes_per_s and self._exported.delay_s(self._portal_bytes(), bytes_per_s):
                    connection.run(f"SET max_backup_bandwidth = {int(bytes_per_s)}", {})
                answer = connection.run(sql, {})
            if about is not None:
                archive.seal(self._staged(path), about, client.check_waiting if stops else lambda: None)
            return answer

    def _portal_bytes(self) -> int:
        sql = "SELECT sum(bytes_on_disk) FROM system.parts WHERE active AND database = {name:String}"
        return int(self._inspector.read(sql, name=DATABASE))

    @contextmanager
    def _staging(self, client: EngineClient, path: str) -> Iterator[None]:
        """A file in staging, which an earlier attempt may have left. It is removed if the block fails, or if the
        client has left."""
        client.check_waiting()
        _remove(self._staged(path))
        try:
            yield
            client.check_waiting()
        except BaseException:
            _remove(self._staged(path))
            raise

    @contextmanager
    def _clear_cache_after(self, is_change: bool) -> Iterator[None]:
        """Queries are checked again after tables have changed."""
        try:
            yield
        finally:
            if is_change:
                self._checks.clear()

    def _staged(self, path: str) -> Path:
        """By its name alone: nothing else is made or removed for a server."""
        return self._folder / "staging" / Path(path).name

    def reader(self, limits: dict[str, int], tag: str = "") -> "Reader":
        return Reader(ChdbConnection(partial(self._as_reader, limits, tag)), self._checks.check)

    def stop(self, client: EngineClient) -> bool:
        """Stop the statements of a client that has left. Returns whether there were any."""
        sql = "KILL QUERY WHERE Settings['log_comment'] = {tag:String} ASYNC"
        return bool(self._inspector.read(sql, tag=client.tag))

    def wait_for_writer(self, clients: Collection[EngineClient]) -> None:
        """Wait until the statement that writes has ended, unless it is for one of these clients. No other begins."""
        if self._writer not in clients:
            self._writing.acquire(timeout=WRITER_GRACE_S)

    def _as_owner(self, tag: str = "", settings: Mapping[str, int] | None = None) -> Any:
        connection = self._connect(tag)
        connection.query(f"CREATE DATABASE IF NOT EXISTS {DATABASE}")
        connection.query(f"USE {DATABASE}")
        if settings:
            connection.query("SET " + ", ".join(f"{name} = {int(value)}" for name, value in settings.items()))
        return connection

    def _as_reader(self, limits: dict[str, int], tag: str) -> Any:
        connection = self._connect(tag)
        connection.query(f"USE {DATABASE}")
        connection.query("SET ROLE reader")
        connection.query("SET " + ", ".join(f"{name} = {int(value)}" for name, value in limits.items()))
        connection.query(
            "SET output_format_json_quote_64bit_integers = 0, output_format_json_quote_decimals = 1, "
            "output_format_json_quote_denormals = 0, date_time_output_format = 'iso'"
        )
        connection.query("SET allow_ddl = 0, allow_introspection_functions = 0, readonly = 1")
        return connection

    def export(
        self, client: EngineClient, sql: str, path: str, format_: str, limits: dict[str, int], bytes_per_s: int
    ) -> bytes:
        """Write the result of a caller's query to a file of ours, within these limits. Returns the number of rows."""
        delay_s = partial(self._exported.delay_s, bytes_per_s=bytes_per_s)
        with self._staging(client, path):
            reader = self.reader(
                {
                    "output_format_json_array_of_rows": format_ == "json",
                    "output_format_json_validate_utf8": 0,  # a file that is imported again keeps its bytes
                    "output_format_parallel_formatting": 1,
                    **limits,
                },
                client.tag,
            )
            try:
                written_as = {"json": "JSONEachRow", "lines": "JSONEachRow"}.get(format_, format_)
                reader.export(sql, written_as, open_paced(path, delay_s, lambda: not client.has_left()))
                client.check_waiting()
            finally:
                reader.close()
            format_to_count = _COUNT_FORMATS.get(format_, f"'{format_}'")
            with ChdbConnection(partial(self._connect, client.tag)) as connection:
                return connection.run(f"SELECT count() FROM file({literal(path)}, {format_to_count})", {})

    def check_archive(self, name: str) -> bytes:
        """Raises archive.DamagedArchive unless a staged portal file makes plain tables only."""
        try:
            archive_statements.check_statements(
                self._folder / "staging" / name, self._inspector.parse, self._checks.functions
            )
        except sql_policy.QueryRefused as exc:
            raise archive.DamagedArchive("This portal file holds a statement that cannot be read.") from exc
        return b""

    def check_restored(self, database: str) -> bytes:
        """Raises archive.DamagedArchive unless RESTORE has made plain tables only."""
        kind = "SELECT engine FROM system.databases WHERE name = {name:String}"
        if self._inspector.read(kind, name=database) != "Atomic\n":
            raise archive.DamagedArchive("This portal file makes no plain database.")
        sql = "SELECT name, create_table_query FROM system.tables WHERE database = {name:String} FORMAT JSONEachRow"
        for made in map(json.loads, self._inspector.read(sql, name=database).splitlines()):
            try:
                tree = self._inspector.parse(made["create_table_query"])
            except sql_policy.QueryRefused as exc:
                raise archive.DamagedArchive("This portal file holds a statement that cannot be read.") from exc
            archive_statements.check_statement(f"metadata/portal/{made['name']}", tree, self._checks.functions)
        return b""

    def _connect(self, tag: str = "") -> Any:
        connection = self._chdb.connect(self._address)
        # {"a.b": 1} is not {"a": {"b": 1}}. And answers are small: threads to write them take longer than they save.
        connection.query(
            "SET json_type_escape_dots_in_keys = 1, output_format_parallel_formatting = 0, "
            "output_format_json_validate_utf8 = 1, "  # other bytes become U+FFFD: else the answer is not JSON
            # Syntax trees, and the queries that the engine writes from them, are longer than the queries themselves.
            f"max_query_size = {MAX_TREE_BYTES}, max_threads = {MAX_THREADS}, log_comment = {literal(tag)}"
        )
        return connection

    def close(self) -> None:
        self._inspector.close()
        self._owner.close()


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
