"""The requests of Home: their cost does not depend on the amount of data."""

import os
import threading
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import apsw
import pytest

from memory_mcp.app import App
from memory_mcp.caller import ALL_SCOPES, LOCAL_USER, Caller
from memory_mcp.engines.sqlite import database
from memory_mcp.engines.sqlite.connections import connect
from memory_mcp.families.graph.model import NewEntity
from memory_mcp.families.recall.counts import counts_by_family
from memory_mcp.families.recall.latest import latest
from memory_mcp.families.registry import FAMILIES
from memory_mcp.families.stores.model import Metadata
from memory_mcp.families.vault.model import NewMemory
from memory_mcp.server.rest.tools import session_of
from tests.conftest import Clock
from tests.families.notes.calls import write

ME = Caller(LOCAL_USER, ALL_SCOPES, frozenset(FAMILIES))
FEW, MANY = 20, 1_000


@dataclass
class Cost:
    """What SQLite did in this thread: the statements, and the steps of its machine, of which each row takes some."""

    thread: int = field(default_factory=threading.get_ident)  # others tidy up meanwhile
    statements: list[str] = field(default_factory=list)
    steps: int = 0

    def add(self, event: dict[str, Any]) -> None:
        if threading.get_ident() != self.thread or event["sql"].startswith(("PRAGMA", "--")):
            return
        self.statements.append(event["sql"])
        self.steps += event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]


@pytest.fixture(autouse=True)
def cost(monkeypatch: pytest.MonkeyPatch) -> Cost:
    counted = Cost()

    def watched(*given: Any, **more: Any) -> apsw.Connection:
        connection = connect(*given, **more)
        connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, counted.add)
        return connection

    monkeypatch.setattr(database, "connect", watched)
    return counted


def home(app: App) -> tuple[Any, ...]:
    """What the page asks for: /api/overview, /api/mcp/memory/analytics and /api/recent."""
    totals = app.notes.reader.totals(ME)
    return counts_by_family(app.opened, ME), totals, app.analytics.history(LOCAL_USER, 30), latest(app.opened, ME, 12)


def costs(app: App, cost: Cost) -> Cost:
    home(app)  # files are opened, stores are looked at
    cost.statements, cost.steps = [], 0
    home(app)
    return replace(cost, statements=list(cost.statements))


def fill(app: App, clock: Clock, until: int) -> None:
    for number in range(app.notes.reader.totals(ME).notes, until):
        clock.now += timedelta(seconds=1)
        write(app, f"Note {number} #tag{number % 12}", namespace=f"n{number % 5}")


def test_home_costs_no_more_with_many_notes(app: App, clock: Clock, cost: Cost) -> None:
    fill(app, clock, FEW)
    with_few = costs(app, cost)
    fill(app, clock, MANY)
    with_many = costs(app, cost)

    assert counts_by_family(app.opened, ME)["notes"]["notes"] == MANY
    assert with_many.statements == with_few.statements
    assert len(with_many.statements) < 40
    assert with_many.steps < 1.1 * with_few.steps


def test_other_families_are_counted_without_reading_them(app: App, cost: Cost) -> None:
    keep(app, range(FEW))
    with_few = costs(app, cost)
    keep(app, range(FEW, 3 * FEW))
    with_many = costs(app, cost)

    found = counts_by_family(app.opened, ME)
    assert (found["vault"]["memories"], found["stores"]["memories"], found["graph"]["entities"]) == (3 * FEW,) * 3
    assert with_many.statements == with_few.statements
    assert not [sql for sql in with_many.statements if "content" in sql and "notes" not in sql]


def keep(app: App, numbers: range) -> None:
    session = session_of(app, ME)
    if not numbers.start:
        app.graph.create_project(ME, session, "p", "")
    app.graph.create_entities(ME, session, "p", [NewEntity(f"e{number}", "thing", ()) for number in numbers])
    for number in numbers:
        app.vault.commit(ME, session, NewMemory("vault", f"k{number}", "text"))
        app.stores.add(ME, "s", f"m{number}", "text", Metadata())
    for file in app.settings.data_dir.rglob("m*.md"):
        os.utime(file, (0, 0))  # one that was written just now is read again
