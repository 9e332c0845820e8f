"""A ClickHouse server: its users, roles and databases, and requests to it.

The user of --portals-url runs this program's own statements. Queries of a caller run as a user of the server for that
caller alone, who can only read, within limits, and only the database whose role a request names.
"""

import json
import os
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from uuid import uuid4

from memory_mcp.engines.chdb import sql_policy
from memory_mcp.engines.chdb.parameters import encoded, literal
from memory_mcp.engines.chdb.process import EngineRules
from memory_mcp.engines.chdb.query_checks import list_functions
from memory_mcp.engines.clickhouse.address import ClickHouseAddress
from memory_mcp.engines.clickhouse.inspector import ServerInspector
from memory_mcp.engines.portal_engine import CANCEL_CHECK_INTERVAL_S, Overdue
from memory_mcp.errors import Unavailable, Unusable
from memory_mcp.system.installation import install_command

if TYPE_CHECKING:
    from clickhouse_connect.driver.client import Client

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
MAX_REQUESTS = 32  # of this process under way at once
MAX_READERS = 64  # clients, of the tenants with the latest queries: each holds a list of all settings
CONNECT_TIMEOUT_S = 10
MAX_STATEMENT_BYTES = 64 * 1024 * 1024
MAX_PARAMETER_BYTES = 100 * 1024  # in all, with the query: a server takes fields of 128 KiB
MAX_ANSWER_BYTES = 16 * 1024 * 1024  # read of a caller's result, which is cut at less
CHUNK_BYTES = 1024 * 1024
STOP_GRACE_S = 5.0  # after the server should have ended a statement itself
_CONSTRAINED = ("max_memory_usage", "max_threads")
QUOTA_S = 60
_SETTINGS: Mapping[str, str | int] = {
    "session_timezone": "UTC",
    "max_query_size": MAX_STATEMENT_BYTES,
    "json_type_escape_dots_in_keys": 1,  # {"a.b": 1} is not {"a": {"b": 1}}
    "output_format_json_validate_utf8": 1,  # other bytes become U+FFFD: else the answer is not JSON
    "output_format_json_quote_64bit_integers": 0,
    "wait_end_of_query": 1,  # an error never comes after the begin of a result
}
_READER_SETTINGS: Mapping[str, str | int] = {
    "output_format_json_quote_decimals": 1,
    "output_format_json_quote_denormals": 0,
    "date_time_output_format": "iso",
    "cancel_http_readonly_queries_on_client_close": 1,
}


class _Request(Protocol[T_co]):
    def __call__(
        self, client: "Client", sql: str, parameters: Mapping[str, Any], settings: Mapping[str, str | int], /
    ) -> T_co: ...


class _Encoded:
    """A parameter as the server parses it. clickhouse-connect sends str() of types it does not know as it is."""

    def __init__(self, value: Any) -> None:
        self._text = encoded(value)

    def __str__(self) -> str:
        return self._text


class ClickHouseServer:
    """Connects at the first request, so that this program starts while the server does not run."""

    def __init__(self, address: ClickHouseAddress, limits: Mapping[str, int], rules: EngineRules) -> None:
        """`limits` are those of a caller's query, as settings of the server."""
        self.address = address
        self._limits = limits
        self._rules = rules
        self._lock = threading.Lock()
        self._requests = ThreadPoolExecutor(MAX_REQUESTS, "clickhouse")
        self._owner: Client | None = None
        self._readers: dict[str, Client] = {}  # by tenant
        self._functions: sql_policy.Functions | None = None

    def functions(self) -> sql_policy.Functions:
        """The functions of the server, and which of them queries may use."""
        if self._functions is None:
            self._functions = list_functions(ServerInspector(OwnerConnection(self, None), ""))
        return self._functions

    def create_database(self, name: str, tenant: str) -> None:
        """A database that is not listed yet, and the role that may read it."""
        owner = OwnerConnection(self, None)
        for statement in (
            *self._user_statements(tenant),
            f"CREATE DATABASE IF NOT EXISTS {name}",
            f"CREATE ROLE IF NOT EXISTS {name}",
            f"GRANT SELECT ON {name}.* TO {name}",
            f"GRANT {name} TO {self.address.reader(tenant)}",
        ):
            owner.run(statement, {})

    def drop_database(self, name: str) -> None:
        owner = OwnerConnection(self, None)
        owner.run(f"DROP DATABASE IF EXISTS {name} SYNC", {})
        owner.run(f"DROP ROLE IF EXISTS {name}", {})

    def drop_tenant(self, user: str) -> None:
        """Delete all portals of a user, and the user who runs their queries."""
        tenant, owner = self.address.tenant(user), OwnerConnection(self, None)
        names = owner.run("SELECT name FROM system.databases WHERE startsWith(name, {t:String})", {"t": tenant})
        for name in names.decode().split():
            self.drop_database(name)
        reader = self.address.reader(tenant)
        owner.run(f"DROP QUOTA IF EXISTS {reader}", {})
        owner.run(f"DROP USER IF EXISTS {reader}", {})

    def send(
        self,
        sql: str,
        parameters: Mapping[str, Any],
        settings: Mapping[str, str | int],
        run: "_Request[T]",
        *,
        tenant: str | None,
        timeout_s: float,
        check_continue: Callable[[], None],
    ) -> T:
        """One request, of a tenant's reader or of this program. It is stopped on the server past its time limit, and
        when `check_continue` raises, which is called again and again. Raises Overdue, or the driver's errors."""
        client, query_id = self._connect(tenant), str(uuid4())
        shown = {name: _Encoded(value) for name, value in parameters.items() if f"{{{name}:" in sql}
        sending = self._requests.submit(run, client, sql, shown, {**_SETTINGS, **settings, "query_id": query_id})
        try:
            return _wait_for(sending, time.monotonic() + timeout_s + STOP_GRACE_S, check_continue)
        except BaseException:
            if not sending.done():
                self._stop(query_id)
            raise

    def close(self) -> None:
        self._requests.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            clients = [*self._readers.values(), *([self._owner] if self._owner else [])]
            self._readers, self._owner = {}, None
        for client in clients:
            client.close()

    def _stop(self, query_id: str) -> None:
        from clickhouse_connect.driver.exceptions import Error

        with suppress(Error):  # the server is gone, and the query with it
            _run(self._connect(None), f"KILL QUERY WHERE query_id = {literal(query_id)} ASYNC", {}, {})

    def _connect(self, tenant: str | None) -> "Client":
        with self._lock:
            if self._owner is None:
                owner = self._create_client(self.address.user, self.address.password)
                _check_version(owner)
                self._owner = owner
            if tenant is None:
                return self._owner
            reader = self._readers.pop(tenant, None) or self._create_reader(self._owner, tenant)
            self._readers[tenant] = reader  # the last one used is the last in the dictionary
            if len(self._readers) > MAX_READERS:
                del self._readers[next(iter(self._readers))]
            return reader

    def _create_reader(self, owner: "Client", tenant: str) -> "Client":
        for statement in self._user_statements(tenant):
            _run(owner, statement, {}, {})
        return self._create_client(self.address.reader(tenant), self.address.reader_password(tenant))

    def _create_client(self, user: str, password: str) -> "Client":
        from clickhouse_connect import get_client
        from clickhouse_connect.driver.exceptions import Error

        try:
            return get_client(
                interface=self.address.scheme,
                host=self.address.host,
                port=self.address.port,
                username=user,
                password=password,
                autogenerate_session_id=False,
                show_clickhouse_errors="scrub",
                connect_timeout=CONNECT_TIMEOUT_S,
                send_receive_timeout=3600,
            )
        except Error as exc:
            raise Unavailable(
                "The ClickHouse server of --portals-url does not answer, or not to this user. Portals work again as "
                "soon as it does.",
                retry_after=int(STOP_GRACE_S),
            ) from exc

    def _user_statements(self, tenant: str) -> list[str]:
        """Create the user for a tenant's queries, or give it the limits of now."""
        reader = self.address.reader(tenant)
        digest = sha256(self.address.reader_password(tenant).encode()).hexdigest()
        about = f"{reader} IDENTIFIED WITH sha256_hash BY '{digest}' DEFAULT ROLE NONE SETTINGS {self._constraints()}"
        seconds = self._rules.max_queries * QUOTA_S  # over all servers
        quota = f"{reader} FOR INTERVAL {QUOTA_S} second MAX execution_time = {seconds} TO {reader}"
        return [
            f"CREATE USER IF NOT EXISTS {about}",
            f"ALTER USER {about}",
            f"CREATE QUOTA IF NOT EXISTS {quota}",
            f"ALTER QUOTA {quota}",
        ]

    def _constraints(self) -> str:
        """What no request of the reader can exceed, whatever its settings say."""
        seconds = max(self._limits["max_execution_time"], self._rules.max_export_s)
        limits = {"max_execution_time": seconds, **{name: self._limits[name] for name in _CONSTRAINED}}
        return ", ".join(["readonly = 2", *(f"{name} = {value} MIN 1 MAX {value}" for name, value in limits.items())])


class OwnerConnection:
    """Runs statements of this program in one database."""

    def __init__(
        self,
        server: ClickHouseServer,
        database: str | None,
        settings: Mapping[str, int] | None = None,
        *,
        timeout_s: float = CONNECT_TIMEOUT_S * 6,
        check_continue: Callable[[], None] = lambda: None,
    ) -> None:
        self._server = server
        self._settings: dict[str, str | int] = {**(settings or {}), **({"database": database} if database else {})}
        self._timeout_s = timeout_s
        self._check_continue = check_continue

    def run(self, sql: str, parameters: dict[str, Any], data: bytes = b"") -> bytes:
        """Long texts go into the statement, as literals."""
        if _size(sql, parameters) > MAX_PARAMETER_BYTES:
            for name, value in parameters.items():
                shown = encoded(value) if isinstance(value, list) else literal(str(value))
                sql = sql.replace(f"{{{name}:{'Array(String)' if isinstance(value, list) else 'String'}}}", shown)
        return self._server.send(
            f"{sql}\n{data.decode()}" if data else sql,
            parameters,
            self._settings,
            _run,
            tenant=None,
            timeout_s=self._timeout_s,
            check_continue=self._check_continue,
        )

    def close(self) -> None: ...


class ReaderConnection:
    """Runs queries of callers, as a user who can only read."""

    def __init__(
        self,
        server: ClickHouseServer,
        database: str,
        tenant: str,
        limits: Mapping[str, int],
        check_continue: Callable[[], None],
    ) -> None:
        self._server = server
        self._timeout_s = limits["max_execution_time"]
        self._tenant = tenant
        names = {"database": database, "role": database}
        self._settings: dict[str, str | int] = {**_READER_SETTINGS, **limits, **names}
        self._check_continue = check_continue

    def run(self, sql: str, parameters: dict[str, Any], data: bytes = b"") -> bytes:
        if parameters and _size(sql, parameters) > MAX_PARAMETER_BYTES:
            raise sql_policy.QueryTooLarge(
                f"a query and its parameters have at most {MAX_PARAMETER_BYTES} bytes on this server."
            )
        return self._send(sql, parameters, _read)

    def save(self, sql: str, path: Path) -> int:
        """Write a result to a new file. Returns how many rows it has."""
        return self._send(sql, {}, partial(_save, path=path))

    def _send(self, sql: str, parameters: Mapping[str, Any], run: "_Request[T]") -> T:
        return self._server.send(
            sql,
            parameters,
            self._settings,
            run,
            tenant=self._tenant,
            timeout_s=self._timeout_s,
            check_continue=self._check_continue,
        )

    def close(self) -> None: ...


def _check_version(owner: "Client") -> None:
    """Raises Unavailable for a server that is too old."""
    if _run(owner, "SELECT count() FROM system.functions WHERE name = 'parseQueryToJSON'", {}, {}).strip() != b"1":
        raise Unavailable(
            "The ClickHouse server of --portals-url is too old: it needs the function parseQueryToJSON, which checks "
            "queries (ClickHouse 26.8 or later)."
        )


def _size(sql: str, parameters: Mapping[str, Any]) -> int:
    return len(sql.encode()) + sum(len(encoded(value).encode()) for value in parameters.values())


def check_driver() -> None:
    """Raises Unusable, with the command that installs it, if the driver is missing."""
    try:
        import clickhouse_connect  # noqa: F401
    except ImportError as exc:
        raise Unusable(
            f"--portals-url needs clickhouse-connect. Install it with: {install_command('clickhouse')}"
        ) from exc


def _wait_for(sending: "Future[T]", deadline: float, check_continue: Callable[[], None]) -> T:
    while True:
        try:
            return sending.result(CANCEL_CHECK_INTERVAL_S)
        except TimeoutError:
            if sending.done():  # it is the error of the request itself
                raise
        check_continue()
        if time.monotonic() > deadline:
            raise Overdue


def _run(client: "Client", sql: str, parameters: Mapping[str, Any], settings: Mapping[str, str | int]) -> bytes:
    return client.raw_query(sql, dict(parameters), dict(settings), use_database=False)


def _read(client: "Client", sql: str, parameters: Mapping[str, Any], settings: Mapping[str, str | int]) -> bytes:
    """The begin of a result: what is longer is cut anyway."""
    with client.raw_stream(sql, dict(parameters), dict(settings), use_database=False) as stream:
        found: bytes = stream.read(MAX_ANSWER_BYTES)
    return found


def _save(
    client: "Client", sql: str, parameters: Mapping[str, Any], settings: Mapping[str, str | int], path: Path
) -> int:
    """Returns the number of rows that the server states."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with (
        os.fdopen(file, "wb") as target,
        client.raw_stream(sql, dict(parameters), dict(settings), use_database=False) as stream,
    ):
        shutil.copyfileobj(stream, target, CHUNK_BYTES)
        headers: Mapping[str, str] = stream.headers  # type: ignore[union-attr]  # of urllib3
    return int(json.loads(headers["X-ClickHouse-Summary"])["result_rows"])
