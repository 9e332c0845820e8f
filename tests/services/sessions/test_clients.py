import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import apsw
import pytest

from memory_mcp.clock import stamp
from memory_mcp.engines.sqlite import Database
from memory_mcp.engines.transactions import SharedDatabase
from memory_mcp.errors import NotFound
from memory_mcp.services.sessions import Client, Clients, Connection, LeasedServers, Servers, live_db
from memory_mcp.services.sessions.leases import LEASE_S
from tests.conftest import Clock
from tests.events import TIMEOUT_S, eventually
from tests.postgres import shared_database
from tests.wire import HELLO, MODERN, Stdio, modern_meta


class Process:
    """What a server process has of its own: who it is, its database, its clients."""

    def __init__(self, folder: Path, clock: Clock, db: SharedDatabase) -> None:
        self.db = db
        self.local = Servers(folder / "servers")
        self.servers = self.local if isinstance(db, Database) else LeasedServers(db, self.local)
        self._clock = clock
        self.ended: list[str] = []
        self.requests = 0
        self.clients = Clients(
            self.db,
            self.servers,
            end_sessions=lambda connection: self.ended.append(connection.id),
            request_disconnects=self._ask,
            clock=clock,
        )

    def _ask(self) -> None:
        self.requests += 1

    def call(self, connection: Connection, hang_up: Callable[[], object] = lambda: None, **more: Any) -> None:
        def meet(now: str) -> Client:
            described = {"name": "Claude", "version": "1", "ip": "192.0.2.7", "transport": "streamable-http"} | more
            return Client(
                id=connection.id,
                user=connection.user,
                key_id="k",
                protocol_version=MODERN,
                started_at=now,
                last_call_at=now,
                **described,
            )

        self.clients.count_call(connection, meet, hang_up)

    def die(self, *others: "Process") -> None:
        """As kill -9 does it: the lock is free, and nothing is cleared. A lease ends in time; others renew theirs."""
        assert self.local._registered is not None
        self.local._registered.close()
        if isinstance(self.servers, LeasedServers):
            self.servers._closing.set()
            self._clock.now += timedelta(seconds=LEASE_S)
            for other in others:
                assert isinstance(other.servers, LeasedServers)
                other.servers.renew()


@pytest.fixture
def process(tmp_path: Path, clock: Clock, chosen_engine_url: str | None) -> Iterator[Callable[[], Process]]:
    with ExitStack() as closing:

        def start() -> Process:
            db = closing.enter_context(shared_database(live_db.FILE, tmp_path, chosen_engine_url, clock))
            started = Process(tmp_path, clock, db)
            closing.callback(started.servers.close)
            return started

        yield start


Start = Callable[[], Process]


def ids(process: Process, user: str = "ann") -> list[str]:
    return [client.id for client in process.clients.of(user)]


def test_each_server_lists_all_clients_of_a_user(process: Start, clock: Clock) -> None:
    one, other = process(), process()
    here, there, his = Connection("ann", "s"), Connection("ann", "s"), Connection("bob", "s")
    one.call(here)
    clock.now = clock.now.replace(second=1)
    other.call(there)
    other.call(his)
    other.clients.flush()

    assert ids(one) == [here.id, there.id]
    assert ids(one, "bob") == [his.id]
    one.clients.flush()
    assert ids(other) == [here.id, there.id]
    assert ids(other, "stranger") == []


def test_calls_are_counted_and_changed_client_info_is_shown(process: Start, clock: Clock) -> None:
    one, other = process(), process()
    connection = Connection("ann", "s")
    began = stamp(clock.now)
    one.call(connection)
    one.clients.flush()
    clock.now = clock.now.replace(second=20)
    one.call(connection, ip="192.0.2.8", version="2")
    one.call(connection, ip="192.0.2.8", version="2")
    for server in (one, other):
        (client,) = server.clients.of("ann")
        assert (client.started_at, client.last_call_at, client.calls) == (began, stamp(clock.now), 3)
        assert (client.ip, client.version) == ("192.0.2.8", "2")


def test_disconnected_clients_are_not_listed(process: Start) -> None:
    one, other = process(), process()
    connection = Connection("ann", "s")
    one.call(connection)
    assert ids(one) == ids(other) == [connection.id]
    connection.closed = True
    one.clients.flush()
    assert ids(other) == ids(one) == []


def test_clients_of_a_killed_server_are_hidden_at_once_and_deleted_later(process: Start, tmp_path: Path) -> None:
    killed, living, starting = process(), process(), process()
    connection, mine = Connection("ann", "s"), Connection("ann", "s")
    killed.call(connection)
    living.call(mine)
    assert set(ids(living)) == {mine.id}
    killed.clients.flush()
    assert set(ids(living)) == {connection.id, mine.id}
    killed.die(living)
    assert ids(living) == [mine.id]
    with pytest.raises(NotFound):
        living.clients.disconnect("ann", connection.id)

    starting.call(Connection("bob", "s"))
    starting.clients.flush()  # a server that shows itself clears up
    with living.db.read() as tx:
        assert tx.all("SELECT id FROM clients WHERE user_id = 'ann'") == [(mine.id,)]
    locks = {path.stem for path in (tmp_path / "servers").glob("*.lock")}
    assert locks == {living.servers.this, starting.servers.this}


def test_a_stopping_server_deletes_its_clients(process: Start, tmp_path: Path) -> None:
    one, other = process(), process()
    one.call(Connection("ann", "s"))
    one.clients.flush()
    one.clients.close()
    one.servers.close()
    assert ids(other) == []
    eventually(lambda: not list((tmp_path / "servers").iterdir()))


def test_disconnecting_a_local_client_ends_its_streams_and_sessions(process: Start) -> None:
    one = process()
    connection = Connection("ann", "s")
    hung_up: list[bool] = []
    one.call(connection, lambda: hung_up.append(connection.closed))
    one.clients.disconnect("ann", connection.id)
    assert hung_up == [True]  # closed before, so that a stream that is just being opened knows
    assert one.ended == [connection.id]
    assert ids(one) == []
    assert one.requests == 0


def test_disconnecting_a_client_of_another_server(process: Start) -> None:
    one, other = process(), process()
    wanted, unwanted = Connection("ann", "s"), Connection("ann", "s")
    hung_up: list[str] = []
    for connection in (wanted, unwanted):
        one.call(connection, lambda id_=connection.id: hung_up.append(id_))  # type: ignore[misc]
    one.clients.flush()
    other.clients.disconnect("ann", unwanted.id)
    assert (hung_up, other.requests) == ([], 1)
    one.clients.disconnect_unwanted()
    assert hung_up == one.ended == [unwanted.id]
    assert ids(other) == [wanted.id]
    one.clients.disconnect_unwanted()
    assert hung_up == [unwanted.id]


def test_other_users_clients_are_not_found(process: Start) -> None:
    one = process()
    connection = Connection("ann", "s")
    one.call(connection)
    refusals = set()
    for id_ in (connection.id, "missing"):
        with pytest.raises(NotFound) as caught:
            one.clients.disconnect("bob", id_)
        refusals.add((caught.value.message, str(caught.value.data)))
    assert len(refusals) == 1
    assert ids(one) == [connection.id]


def test_a_check_and_a_start_at_the_same_time_leave_the_starting_server_alive(tmp_path: Path) -> None:
    """The cleanup may hold the lock of a server that just registers, and delete its lock file."""
    import threading

    folder, stop = tmp_path / "servers", threading.Event()

    def look() -> None:
        looking = Servers(folder)
        while not stop.is_set():
            looking.delete_stale_locks()

    thread = threading.Thread(target=look)
    folder.mkdir()
    thread.start()
    try:
        for _ in range(150):
            starting = Servers(folder)
            starting.register_this()
            assert Servers(folder).is_running(starting.this)
            starting.close()
    finally:
        stop.set()
        thread.join()


# Over stdio, as processes


def listed(data_dir: Path) -> list[tuple[Any, ...]]:
    connection = apsw.Connection(str(data_dir / "live.db"), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return connection.execute("SELECT name, transport, calls FROM clients ORDER BY name").fetchall()
    finally:
        connection.close()


def test_stdio_clients_of_both_eras_are_listed_until_they_disconnect(tmp_path: Path) -> None:
    old = Stdio.start(tmp_path, hello=False)
    old.ask("initialize", HELLO | {"clientInfo": {"name": "old", "version": "1"}})
    old.ask("tools/list")
    new = Stdio.start(tmp_path, hello=False)
    about = {"io.modelcontextprotocol/clientInfo": {"name": "new", "version": "2"}}
    new.ask("tools/list", {"_meta": modern_meta(**about)})
    eventually(lambda: listed(tmp_path) == [("new", "stdio", 1), ("old", "stdio", 2)])
    assert old.close() == new.close() == 0
    assert listed(tmp_path) == []
    eventually(lambda: not list((tmp_path / "servers").iterdir()))


def test_a_signal_leaves_nothing_behind(tmp_path: Path) -> None:
    server = Stdio.start(tmp_path, "--shared", "off")
    server.call("commit_memory", scope="session", key="k", content="c")  # from here on it has a lock file
    assert len(list((tmp_path / "servers").glob("*.lock"))) == 1
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(timeout=TIMEOUT_S) == 0
    eventually(lambda: not list((tmp_path / "servers").iterdir()))
    server.kill()


def test_the_next_server_cleans_up_after_kill_9(tmp_path: Path) -> None:
    killed = Stdio.start(tmp_path, "--shared", "off")
    eventually(lambda: len(listed(tmp_path)) == 1)
    killed.kill()
    left = {path.name for path in (tmp_path / "servers").iterdir()}
    assert left
    following = Stdio.start(tmp_path, "--shared", "off")
    eventually(lambda: not left & {path.name for path in (tmp_path / "servers").iterdir()})
    eventually(lambda: len(listed(tmp_path)) == 1)
    following.close()


def test_a_disconnect_sends_no_signal_to_processes(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Process ids of another container are other processes here: no process is sent a signal."""
    stdio = Stdio.start(tmp_path)
    eventually(lambda: len(listed(tmp_path)) == 1)
    monkeypatch.setattr(os, "kill", lambda *_: pytest.fail("a signal was sent"))
    with shared_database(live_db.FILE, tmp_path, clock=clock) as db:
        visitor = Process(tmp_path, clock, db)
        (client,) = visitor.clients.of("local")
        visitor.clients.disconnect("local", client.id)
        with suppress(EOFError, BrokenPipeError):  # it may have ended by itself
            stdio.ask("tools/list")  # no request reached it, but it checks after the next call
        assert stdio.process.wait(timeout=TIMEOUT_S) == 0
        assert ids(visitor, "local") == []
    stdio.kill()
