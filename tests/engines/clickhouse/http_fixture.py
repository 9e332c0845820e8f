"""An HTTP server over chDB that speaks as much of ClickHouse's HTTP interface as clickhouse-connect needs.

No ClickHouse server of this decade can be had where these tests run; `MEMORY_MCP_TEST_PORTALS_URL` names one where it
can. The engine, its SQL, its grants and `readonly` are those of ClickHouse. chDB cannot store users, roles and quotas:
this program notes CREATE USER, CREATE ROLE and GRANT, and opens the engine again with a users.xml that has them. Quotas
are taken and not applied, and of a user's settings only the values, not MIN and MAX. Compression is not spoken.

Run as `python -m tests.engines.clickhouse.http_fixture FOLDER`. It prints its port, and ends with its stdin.
"""

import io
import json
import os
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit
from xml.sax.saxutils import escape

OWNER = "default"
HTTP_SERVER_LINE = 65_537
MAX_FIELD_BYTES = 128 * 1024  # as ClickHouse takes them by default
_FORMAT = re.compile(r"\bFORMAT\s+(\w+)\s*$", re.IGNORECASE)
_EXPORTED = {"JSONEachRow", "CSVWithNames", "Parquet"}  # formats whose rows are counted
_USER = re.compile(
    r"(?:CREATE USER IF NOT EXISTS|ALTER USER) (\w+) IDENTIFIED WITH sha256_hash BY '(\w+)'(.*)", re.DOTALL
)
_SETTING = re.compile(r"(\w+) = (\w+)(?: MIN| MAX|,|$)")
_ROLE = re.compile(r"(CREATE ROLE IF NOT EXISTS|DROP ROLE IF EXISTS) (\w+)")
_GRANT = re.compile(r"GRANT SELECT ON (\w+)\.\* TO (\w+)")
_GRANT_ROLE = re.compile(r"GRANT (\w+) TO (\w+)")
_QUOTA = re.compile(r"(CREATE QUOTA IF NOT EXISTS|ALTER QUOTA|DROP QUOTA IF EXISTS) ")
_DROP_USER = re.compile(r"DROP USER IF EXISTS (\w+)")
_KILL = re.compile(r"KILL QUERY WHERE query_id = '([\w-]+)' ASYNC")
_TRANSPORT = {
    "query",
    "database",
    "query_id",
    "role",
    "quota_key",
    "wait_end_of_query",
    "session_id",
    "user",
    "password",
}
_TRANSPORT |= {"compress", "decompress", "enable_http_compression", "client_protocol_version", "default_format"}
_TRANSPORT |= {"send_progress_in_http_headers", "http_headers_progress_interval_ms"}
OWNER_GRANT = (  # as docs/portals.md has it
    "GRANT CREATE DATABASE, DROP DATABASE, ALTER DATABASE, CREATE TABLE, DROP TABLE, TRUNCATE, ALTER TABLE, INSERT, "
    "SELECT, SHOW, KILL QUERY ON *.*"
)
CONFIG = """<clickhouse><users_config>users.xml</users_config><timezone>UTC</timezone>
<merge_tree><fsync_after_insert>1</fsync_after_insert></merge_tree></clickhouse>"""
USERS = """<clickhouse><profiles><default></default></profiles><quotas><default></default></quotas>
<roles><owner><grants><query>{owner}</query></grants></owner>{roles}</roles>
<users><default><password></password><networks><ip>::/0</ip></networks><profile>default</profile>
<quota>default</quota><grants><query>GRANT owner</query>{granted}</grants></default></users></clickhouse>"""


class Refused(Exception):
    """An error with ClickHouse's code."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"Code: {code}. DB::Exception: {message}")


class Engine:
    """chDB on one folder, opened again whenever roles or their grants change."""

    def __init__(self, folder: Path) -> None:
        import chdb

        self._chdb = chdb
        self._folder = folder
        self._change = threading.Condition()
        self._running = 0
        self.users: dict[str, tuple[str, dict[str, str]]] = {OWNER: (sha256(b"").hexdigest(), {})}
        self.roles: dict[str, list[str]] = {}
        self.granted: dict[str, set[str]] = {}
        (folder / "config.xml").write_text(CONFIG)
        self._open()

    def _open(self) -> None:
        roles = "".join(
            f"<{name}><grants>{''.join(f'<query>{escape(grant)}</query>' for grant in grants)}</grants></{name}>"
            for name, grants in self.roles.items()
        )
        granted = "".join(f"<query>GRANT {name}</query>" for name in self.roles)
        (self._folder / "users.xml").write_text(USERS.format(owner=OWNER_GRANT, roles=roles, granted=granted))
        self._kept = self.connect()  # the engine ends with its last connection

    def connect(self) -> Any:
        return self._chdb.connect(f"{self._folder / 'db'}?config-file={self._folder / 'config.xml'}")

    @contextmanager
    def request(self) -> Iterator[None]:
        with self._change:
            self._running += 1
        try:
            yield
        finally:
            with self._change:
                self._running -= 1
                self._change.notify_all()

    def apply(self, change: Any) -> None:
        """Change users or roles while no request runs."""
        with self._change:
            self._change.wait_for(lambda: self._running == 0)
            change()
            self._kept.close()
            self._open()

    def manage(self, sql: str) -> bool:
        """Whether this is a statement about users, roles and quotas, which is carried out then."""
        if found := _USER.match(sql):
            settings = dict(_SETTING.findall(found[3].partition("SETTINGS")[2]))
            self.users[found[1]] = (found[2], settings)
        elif found := _ROLE.match(sql):
            if found[1].startswith("DROP"):
                self.roles.pop(found[2], None)
            else:
                self.roles.setdefault(found[2], [])
        elif found := _GRANT.match(sql):
            grants, grant = self.roles[found[2]], f"GRANT SELECT ON {found[1]}.*"
            if grant not in grants:
                self.apply(lambda: grants.append(grant))
        elif found := _GRANT_ROLE.match(sql):
            self.granted.setdefault(found[2], set()).add(found[1])
        elif found := _DROP_USER.match(sql):
            self.users.pop(found[1], None)
        elif not _QUOTA.match(sql):
            return False
        return True


class LongLines(io.BufferedReader):
    """Addresses of up to 1 MiB, as ClickHouse takes them: http.server stops at 64 KiB."""

    def readline(self, size: int | None = -1, /) -> bytes:
        return super().readline(1024 * 1024 if size == HTTP_SERVER_LINE else size)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    engine: Engine

    def setup(self) -> None:
        super().setup()
        self.rfile = LongLines(self.connection.makefile("rb", buffering=0))

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass

    def do_GET(self) -> None:
        self._answer(200, b"Ok.\n")

    def do_POST(self) -> None:
        given = dict(parse_qsl(urlsplit(self.path).query, keep_blank_values=True))
        body = self._body()
        if (kind := self.headers.get("Content-Type", "")).startswith("multipart/"):
            given |= _fields(kind, body)
            body = b""
        sql = given.get("query", "") + body.decode("utf-8", "surrogateescape")
        try:
            user = self._sign_in()
            if user == OWNER and self.engine.manage(sql):
                self._answer(200, b"")
                return
            with self.engine.request():
                found = self._run(user, sql, given)
                shown = _FORMAT.search(sql)
                format_ = shown[1] if shown else "TabSeparated"
                counted = f"SELECT count() FROM ({sql.removesuffix(f'FORMAT {format_}')})"
                rows = self._run(user, counted, given) if user != OWNER and format_ in _EXPORTED else b"0"
            summary = json.dumps({"result_rows": rows.decode().strip()})
            self._answer(200, found, {"X-ClickHouse-Format": format_, "X-ClickHouse-Summary": summary})
        except Exception as exc:  # noqa: BLE001  # any failure is the answer
            code = re.search(r"Code: (\d+)", str(exc))
            headers = {"X-ClickHouse-Exception-Code": code[1]} if code else {}
            self._answer(500, f"{exc} (version 26.9 (fixture))\n".encode(), headers)

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") == "chunked":
            parts = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def _sign_in(self) -> str:
        import base64

        kind, _, encoded = self.headers.get("Authorization", "Basic ZGVmYXVsdDo=").partition(" ")
        user, _, password = base64.b64decode(encoded).decode().partition(":")
        digest, _ = self.engine.users.get(user, ("", {}))
        if kind != "Basic" or digest != sha256(password.encode()).hexdigest():
            raise Refused(516, f"{user}: Authentication failed: password is incorrect, or there is no such user.")
        return user

    def _run(self, user: str, sql: str, given: dict[str, str]) -> bytes:
        connection = self.engine.connect()
        try:
            connection.query(f"USE {given.get('database', 'default')}")
            if found := _KILL.match(sql):
                sql = f"KILL QUERY WHERE Settings['log_comment'] = '{found[1]}' ASYNC"
            settings = {name: value for name, value in given.items() if name not in _TRANSPORT and "param_" not in name}
            settings["log_comment"] = given.get("query_id", "")
            if user != OWNER:
                self._restrict(connection, user, given.get("role"))
            for name, value in settings.items():
                connection.query(f"SET {name} = {_quoted(value)}")
            params = {name[6:]: value for name, value in given.items() if name.startswith("param_")}
            return bytes(
                connection.query(
                    sql, "TSVRaw" if "SHOW" in sql else "TSV", **({"params": params} if params else {})
                ).bytes()
            )
        finally:
            connection.close()

    def _restrict(self, connection: Any, user: str, role: str | None) -> None:
        if role and role not in self.engine.granted.get(user, ()):
            raise Refused(512, f"Role {role} should be granted to set as current.")
        connection.query(f"SET ROLE {role or 'NONE'}")
        for name, value in sorted(self.engine.users[user][1].items(), key=lambda one: one[0] == "readonly"):
            connection.query(f"SET {name} = {value}")

    def _answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _fields(kind: str, body: bytes) -> dict[str, str]:
    """Of a form, which is how long parameters come."""
    form = message_from_bytes(b"Content-Type: " + kind.encode() + b"\r\n\r\n" + body)
    fields = {}
    for part in form.walk():
        if name := part.get_param("name", header="content-disposition"):
            value = part.get_payload(decode=True)
            assert isinstance(value, bytes)
            if len(value) > MAX_FIELD_BYTES:
                raise Refused(119, "Field value too long")
            fields[str(name)] = value.decode()
    return fields


def _quoted(value: str) -> str:
    return value if re.fullmatch(r"-?\d+", value) else "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def main() -> None:
    folder = Path(sys.argv[1])
    os.chdir(folder)
    threading.stack_size(64 * 1024 * 1024)
    Handler.engine = Engine(folder)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    print(server.server_address[1], flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main()
