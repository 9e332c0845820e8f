"""Statements made from the engine's own lists reach nothing outside of the portal, whatever is new in the engine.

`make attack` tries 100,000 of them.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from memory_mcp.app import App
from memory_mcp.errors import AppError
from tests.engines.chdb.generated_escapes import EngineLists, statements
from tests.engines.chdb.outside import SECRET, Outside
from tests.families.portals.calls import CALLER, put, query_operation

STATEMENTS = int(os.environ.get("MEMORY_MCP_ATTACK_STATEMENTS", "100"))
SEED = int(os.environ.get("MEMORY_MCP_ATTACK_SEED", "1"))
PORTAL = "mem://generated/mine"


@pytest.fixture(scope="module")
def options() -> dict[str, Any]:
    return {"families": "portals", "portal_seconds": 5}


LISTS = """
import chdb, json
lists = {}
for table in ("functions", "table_functions", "settings", "formats"):
    lists[table] = json.loads(chdb.query(f"SELECT name FROM system.{table}", "JSONCompactColumns").bytes())[0]
print(json.dumps(lists))
"""


def engine_lists() -> EngineLists:
    """As the engine itself states them; in another process, since chDB stays loaded in one that has used it."""
    done = subprocess.run([sys.executable, "-c", LISTS], capture_output=True, check=True)
    return EngineLists(**json.loads(done.stdout))


def test_no_statement_made_from_the_engines_lists_leads_out(
    app: App, outside: Outside, record_property: Callable[[str, object], None]
) -> None:
    put(app, "mine", [{"n": n, "word": f"w{n}"} for n in (1, 2, 3)], PORTAL)
    refused = 0
    for text in statements(engine_lists(), STATEMENTS, SEED):
        statement = outside.statement(text)
        answer = _answer(app, statement)
        assert SECRET not in answer.replace(statement, ""), statement
        refused += answer.startswith("refused: ")
    assert outside.traces() == []
    assert query_operation(app, "SELECT count() AS c FROM mine", portal=PORTAL) == [{"c": 3}]
    record_property("attempts", STATEMENTS)
    record_property("refused", refused)


def _answer(app: App, statement: str) -> str:
    try:
        return str(app.portals.query(CALLER, PORTAL, statement, {}))
    except AppError as exc:
        return f"refused: {exc.message}"
