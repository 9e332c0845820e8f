"""Calls whose transaction the database loses."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import psycopg
import pytest

from memory_mcp.app import App, open_app
from memory_mcp.engines.postgres.transactions import PostgresRead, PostgresWrite
from memory_mcp.errors import Unavailable
from memory_mcp.families.family import Call
from memory_mcp.families.notes.model import Author, NewNote
from memory_mcp.retries import MAX_ATTEMPTS
from memory_mcp.server.protocol import McpServer
from tests.engines.postgres.test_server import HERE, LOCAL, chosen, titles

Lose = Callable[..., None]


@pytest.fixture
def app(tmp_path: Path, postgres_url: str) -> Iterator[App]:
    with open_app(chosen(tmp_path, postgres_url), serving=False) as app:
        yield app


@pytest.fixture
def lose(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> Lose:
    """End the connection before the first statements that begin like this, as many as are given."""

    def lose_connections(kind: type[PostgresRead], beginning: str, times: int = 1) -> None:
        run, left = kind.all, [None] * times

        def run_or_lose(tx: PostgresRead, sql: str, values: Mapping[str, Any] | None = None) -> list[Any]:
            if left and sql.strip().startswith(beginning):
                left.pop()
                with psycopg.connect(postgres_url, autocommit=True) as other:
                    other.execute(
                        "SELECT pg_terminate_backend(%s, 5000)", (tx.transaction.connection.info.backend_pid,)
                    )
            return run(tx, sql, values)

        monkeypatch.setattr(kind, "all", run_or_lose)

    return lose_connections


def call(app: App, name: str, **arguments: Any) -> Any:
    tool = app.families["notes"].tools[name]
    calling = Call(app.opened["notes"].operations, LOCAL, HERE)
    return McpServer(app).tool_calls.run(calling, tool, arguments)


def test_a_write_that_lost_its_connection_is_repeated_and_written_once(app: App, lose: Lose) -> None:
    lose(PostgresWrite, "INSERT INTO notes")
    call(app, "memory_create", content="The backup runs nightly")
    assert titles(app, LOCAL, "backup") == ["The backup runs nightly"]


def test_a_read_that_lost_its_connection_is_repeated(app: App, lose: Lose) -> None:
    note = app.notes.writer.create(LOCAL, Author(), NewNote("The backup runs nightly"))
    lose(PostgresRead, "SELECT")
    assert call(app, "memory_get", id=note.id).content == "The backup runs nightly"


def test_after_some_attempts_the_call_is_unavailable_and_nothing_is_written(app: App, lose: Lose) -> None:
    lose(PostgresWrite, "INSERT INTO notes", times=MAX_ATTEMPTS)
    with pytest.raises(Unavailable, match="Nothing was changed") as refused:
        call(app, "memory_create", content="The backup runs nightly")
    assert "may_have_happened" not in refused.value.data
    assert titles(app, LOCAL, "backup") == []


def test_a_write_of_which_a_part_was_committed_is_not_repeated(
    app: App, lose: Lose, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = app.notes.writer.create

    def create_two(*arguments: Any) -> Any:
        create(LOCAL, Author(), NewNote("The first"))
        lose(PostgresWrite, "INSERT INTO notes")
        return create(*arguments)

    monkeypatch.setattr(app.notes.writer, "create", create_two)
    with pytest.raises(Unavailable) as refused:
        call(app, "memory_create", content="The second")
    assert refused.value.data["may_have_happened"] is True
    assert sorted(titles(app, LOCAL, "first second")) == ["The first"]
