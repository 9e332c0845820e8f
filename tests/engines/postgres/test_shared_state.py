"""Servers on one database share users, keys, limits, clients and sessions: none has state of its own."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import anyio.to_thread
import psycopg
import pytest

from memory_mcp.app import App, open_access, open_app
from memory_mcp.caller import ALL_SCOPES, LOCAL_USER, Caller
from memory_mcp.engines.postgres import migrations
from memory_mcp.errors import Conflict
from memory_mcp.families.notes.model import Author, NewNote
from memory_mcp.server.protocol import McpServer
from memory_mcp.services.access import KeyRefused
from memory_mcp.services.search_index.embedding_queue import CLAIM_TTL_S, MAX_TEXTS, EmbeddingQueue
from memory_mcp.services.sessions import Client, Connection, Session
from memory_mcp.services.sessions.leases import LEASE_S, LeasedServers
from tests.conftest import Clock
from tests.engines.postgres.test_server import chosen
from tests.events import TIMEOUT_S

LOCAL = Caller(LOCAL_USER, ALL_SCOPES, frozenset({"notes"}))


@pytest.fixture
def servers(postgres_url: str, tmp_path_factory: pytest.TempPathFactory, clock: Clock) -> Iterator[tuple[App, App]]:
    """Two, each with a data directory of its own, as on two machines."""
    with ExitStack() as stack:
        folders = [tmp_path_factory.mktemp(name) for name in ("one", "other")]
        one, other = (
            stack.enter_context(open_app(chosen(folder, postgres_url, "notes"), clock=clock)) for folder in folders
        )
        yield one, other


def test_users_keys_sign_ins_and_audit_are_shared(servers: tuple[App, App], postgres_url: str, tmp_path: Path) -> None:
    one, other = servers
    ann = one.access.users.add("ann", "pro")
    issued = one.access.keys.create(name="laptop", user=ann.id)
    with pytest.raises(Conflict):
        other.access.users.add("ANN")
    assert other.access.keys.check(issued.raw, "192.0.2.1").plan == "pro"
    cookie = other.access.sign_ins.sign_in_by_link(one.access.sign_ins.create_link_token(ann.id), "192.0.2.1")
    assert one.access.sign_ins.user_of(cookie).name == "ann"
    with open_access(chosen(tmp_path, postgres_url)) as command:  # `memory-mcp keys revoke` on a third machine
        command.keys.revoke(issued.key.id)
    other.access.keys.forget(ann.id)  # which the notification of the command does
    with pytest.raises(KeyRefused, match="revoked"):
        other.access.keys.check(issued.raw)
    actions = [record.event.action for record in one.access.audit.of(ann.id, None, 10)]
    assert actions == ["key_revoked", "signed_in", "key_used", "key_created"]
    assert not [path.name for path in one.settings.data_dir.rglob("*.db")]


def test_limits_count_the_requests_at_every_server(servers: tuple[App, App]) -> None:
    def ask(app: App) -> bool:
        return not app.access.limits.take("ann", 10, seconds=3600).is_spent

    with ThreadPoolExecutor(4) as threads:
        assert sum(threads.map(ask, servers * 10)) == 10


def test_audit_records_written_at_once_have_numbers_of_their_own(servers: tuple[App, App]) -> None:
    def create(numbered: tuple[int, App]) -> str:
        return numbered[1].access.keys.create(name=f"key {numbered[0]}").key.id

    with ThreadPoolExecutor(4) as threads:
        ids = list(threads.map(create, enumerate(servers * 4)))
    records = servers[0].access.audit.of(LOCAL_USER, None, 100)
    assert sorted(record.id for record in records) == list(range(1, len(ids) + 1))


def test_a_client_is_disconnected_from_another_server(servers: tuple[App, App]) -> None:
    one, other = servers
    connection, closed = Connection(LOCAL_USER, "s"), list[str]()

    def describe(now: str) -> Client:
        return Client(
            connection.id,
            LOCAL_USER,
            None,
            "Claude",
            "1",
            None,
            "streamable-http",
            "",
            started_at=now,
            last_call_at=now,
        )

    one.clients.count_call(connection, describe, lambda: closed.append(connection.id))
    one.clients.flush()
    assert [client.name for client in other.clients.of(LOCAL_USER)] == ["Claude"]
    other.clients.disconnect(LOCAL_USER, connection.id)
    one.clients.disconnect_unwanted()  # the notification, or the look once a second
    assert closed == [connection.id]
    assert other.clients.of(LOCAL_USER) == []


def test_a_client_without_a_connection_has_one_session_at_every_server(servers: tuple[App, App]) -> None:
    def session_at(app: App) -> Session:
        connection = app.sessions.connection_without_handshake(LOCAL, "agent")
        session = Session(connection.chosen_session or connection.own_session, connection)
        return app.sessions.join(LOCAL_USER, session)

    one, other = servers
    assert session_at(one).id == session_at(other).id
    one.sessions.choose(session_at(one), "release 3")
    assert session_at(other).id == "release 3"
    other.sessions.choose(session_at(other), "release 4")
    assert session_at(one).id == "release 4"


def test_a_session_ends_when_no_server_holds_it(servers: tuple[App, App]) -> None:
    one, other = servers
    ended: list[tuple[str, str]] = []
    connections = [Connection(LOCAL_USER, "own") for _ in servers]
    for app, connection in zip(servers, connections, strict=True):
        app.sessions.on_end(lambda user, ids: ended.extend((user, id_) for id_ in ids))
        app.sessions.choose(Session("own", connection), "shared")
    one.sessions.close(connections[0])
    assert ended == []
    other.sessions.close(connections[1])
    assert ended == [(LOCAL_USER, "shared")]


def test_sessions_of_a_killed_server_end_with_its_lease(servers: tuple[App, App], clock: Clock) -> None:
    killed, living = servers
    ended: list[str] = []
    living.sessions.on_end(lambda user, ids: ended.extend(ids))
    killed.sessions.choose(Session("own", Connection(LOCAL_USER, "own")), "left")
    living.sessions.choose(Session("own", Connection(LOCAL_USER, "own")), "in use")
    killed_servers, living_servers = killed.servers, living.servers
    assert isinstance(killed_servers, LeasedServers)
    assert isinstance(living_servers, LeasedServers)
    killed_servers._closing.set()  # as kill -9 does it: the lease is not renewed, and nothing is removed
    clock.now = clock.now.replace(minute=1)
    living.sessions.end_stale()
    assert ended == []  # its own lease had ended, too: the database may have been away, and the other server may run
    living_servers._steady_since -= LEASE_S
    living.sessions.end_stale()
    assert ended == ["left"]
    assert [server.id for server in living_servers.running()] == [living_servers.this]


def test_a_server_that_was_taken_for_stopped_holds_its_sessions_again(servers: tuple[App, App], clock: Clock) -> None:
    paused, other = servers
    paused.sessions.choose(Session("own", Connection(LOCAL_USER, "own")), "mine")
    assert isinstance(paused.servers, LeasedServers)
    with psycopg.connect(paused.settings.database_url or "", autocommit=True) as connection:
        for table in ("memory_live.leases", "memory_server.servers"):
            connection.execute(f"DELETE FROM {table}".encode())
        paused.servers.renew()
        assert connection.execute("SELECT session_id FROM memory_server.held_sessions").fetchall() == [("mine",)]
    assert other.servers.is_running(paused.servers.this)


def test_however_many_servers_start_migrations_run_once(postgres_url: str, tmp_path: Path) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        for name in ("server", "live"):
            connection.execute(f"DROP SCHEMA memory_{name} CASCADE".encode())
            connection.execute("DELETE FROM memory.schema_versions WHERE name = %s", (name,))

    def start(number: int) -> list[str]:
        with open_access(chosen(tmp_path / str(number), postgres_url)) as access:
            return [user.name for user in access.users.all()]

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(start, range(4))) == [["local"]] * 4


def test_no_users_transaction_sees_the_servers_rows(servers: tuple[App, App], postgres_url: str) -> None:
    servers[0].access.keys.create(name="laptop")
    with psycopg.connect(postgres_url) as connection:
        connection.execute(f"SET ROLE {migrations.APP_ROLE}")
        for tenant, count in (("server", 1), ("local", 0), ("", 0)):
            connection.execute("SELECT set_config('memory.tenant', %s, true)", (tenant,))
            assert connection.execute("SELECT count(*) FROM memory_server.keys").fetchone() == (count,)


@pytest.mark.anyio
async def test_a_revocation_anywhere_reaches_every_server_at_once(servers: tuple[App, App], tmp_path: Path) -> None:
    app = servers[0]
    issued = app.access.keys.create(name="laptop")
    app.access.keys.check(issued.raw)
    connection, closed = Connection(LOCAL_USER, "s"), threading.Event()

    def describe(now: str) -> Client:
        return Client(connection.id, LOCAL_USER, issued.key.id, "Claude", "1", None, "sse", "", now, now)

    app.clients.count_call(connection, describe, closed.set)
    McpServer(app).start_notifications()  # without the look once a second, which an HTTP server adds
    with open_access(chosen(tmp_path, str(app.settings.database_url))) as command:
        command.keys.revoke(issued.key.id)
    assert await anyio.to_thread.run_sync(closed.wait, TIMEOUT_S)
    assert app.access.keys.cached(issued.raw) is None


def test_no_text_is_embedded_by_two_servers(servers: tuple[App, App], clock: Clock) -> None:
    for number in range(3 * MAX_TEXTS):
        servers[0].notes.writer.create(LOCAL, Author(), NewNote(f"note {number}"))
    queues = [app.notes._files.of(LOCAL_USER).queue for app in servers]
    together = threading.Barrier(len(queues))

    def claim_all(numbered: tuple[int, EmbeddingQueue]) -> list[int]:
        number, queue = numbered
        claimed = list[int]()
        together.wait()
        while jobs := queue.claim(f"worker {number}"):
            claimed += [job.ticket for job in jobs]
        return claimed

    with ThreadPoolExecutor(len(queues)) as threads:
        one, other = threads.map(claim_all, enumerate(queues))
    assert len({*one, *other}) == len(one) + len(other) == 3 * MAX_TEXTS
    clock.now += timedelta(seconds=CLAIM_TTL_S + 1)  # a server that was killed finishes none of its own
    assert len(queues[0].claim("worker 3")) == MAX_TEXTS
