"""Servers on one database are notified of each other's changes."""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from queue import Queue

import psycopg
import pytest

from memory_mcp.changes import Change
from memory_mcp.engines.postgres.notifications import CHANNEL, DatabasePeers
from memory_mcp.peers import Peers
from tests.events import eventually

CHANGE = Change(
    "ada", ("memory://notes/1", "memory://notes/ü"), list_changed=True, topics=("vectors",), namespace="work"
)
TIMEOUT_S = 30.0
LISTENING = "SELECT pid FROM pg_stat_activity WHERE query LIKE 'LISTEN%'"


class Listening:
    def __init__(self, peers: Peers) -> None:
        self.peers = peers
        self.received: Queue[Change | None] = Queue()
        peers.listen(self.received.put, lambda: self.received.put(None))

    def next(self) -> Change | None:
        return self.received.get(timeout=TIMEOUT_S)


@pytest.fixture
def servers(postgres_server: str) -> Iterator[tuple[Listening, Listening]]:
    with ExitStack() as stack:
        one, other = (Listening(stack.enter_context(closing(DatabasePeers(postgres_server)))) for _ in range(2))
        yield one, other


def test_a_change_reaches_the_other_servers_alone(servers: tuple[Listening, Listening]) -> None:
    one, other = servers
    one.peers.publish(CHANGE)
    assert other.next() == CHANGE
    other.peers.request_disconnects()
    assert one.next() is None  # the first message that it gets: not its own change
    assert one.received.empty()


def test_after_a_broken_connection_changes_arrive_again(
    servers: tuple[Listening, Listening], postgres_server: str
) -> None:
    one, other = servers
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        former = connection.execute(LISTENING).fetchall()
        for (pid,) in former:
            connection.execute("SELECT pg_terminate_backend(%s)", (pid,))
        eventually(lambda: len(set(connection.execute(LISTENING).fetchall()) - set(former)) == 2)
    one.peers.publish(CHANGE)
    assert other.next() == CHANGE


def test_what_is_no_message_of_ours_is_ignored(servers: tuple[Listening, Listening], postgres_server: str) -> None:
    one, other = servers
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        for payload in ("", "nonsense", "[]", '["x", 1]', '["x", "{}"]'):
            connection.execute("SELECT pg_notify(%s, %s)", (CHANNEL, payload))
    one.peers.publish(CHANGE)
    assert other.next() == CHANGE


def test_publishing_never_fails() -> None:
    with closing(DatabasePeers("postgresql://ada@127.0.0.1:1/x")) as peers:
        peers.listen(lambda change: None)
        peers.publish(CHANGE)
