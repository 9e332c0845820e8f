"""Results far larger than an answer: the engine hands over the rows that fit, and the server stays small."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.families.portals.calls import PORTAL
from tests.families.portals.test_processes import start
from tests.wire import Stdio

MAX_GROWTH_KB = 200 * 1024


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stdio]:
    server = start(tmp_path_factory.mktemp("data"), "--families", "portals")
    server.call("portal_write", portalUri=PORTAL, table="t", data=[{"n": 1}])
    yield server
    server.close()


def query(server: Stdio, sql: str) -> dict[str, Any]:
    answer = server.ask("tools/call", {"name": "portal_query", "arguments": {"portalUri": PORTAL, "sql": sql}})
    found: dict[str, Any] = answer["result"]["structuredContent"]
    return found


def peak_kb(server: Stdio) -> int:
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{server.process.pid}/status").read_text())
    assert found
    return int(found[1])


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="measured on Linux only")
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT arrayResize(emptyArrayUInt8(), 10000 + number) AS a FROM numbers(6000)",  # 120 MB of JSON
        "SELECT arrayResize([[]::Array(UInt8)], 2000 + number % 2) AS a FROM numbers(9000)",  # empty lists cost most
    ],
)
def test_a_huge_result_is_cut_and_takes_little_memory_of_the_server(server: Stdio, sql: str) -> None:
    before = peak_kb(server)
    found = query(server, sql)
    assert found["truncated"] or found["error"] == "too_large"
    assert peak_kb(server) - before < MAX_GROWTH_KB


def test_a_row_that_is_too_large_alone_is_left_out_and_the_answer_says_so(server: Stdio) -> None:
    found = query(
        server,
        "SELECT repeat('x', 900000) AS a, repeat('y', 900000) AS b, "
        + ", ".join(f"repeat('z', 900000) AS c{number}" for number in range(4)),
    )
    assert (found["rows"], found["truncated"]) == ([], True), str(found)[:300]
    assert "There is more" in found["notice"]


def test_no_rows_are_an_empty_list(server: Stdio) -> None:
    found = query(server, "SELECT n, 'a\nb' AS s FROM t WHERE n = 2")
    assert (found["rows"], found["truncated"]) == ([], False)
    assert [column["name"] for column in found["columns"]] == ["n", "s"]


def test_values_with_line_breaks_stay_in_their_row(server: Stdio) -> None:
    assert query(server, "SELECT 'a\nb' AS s UNION ALL SELECT 'a\nb'")["rows"] == [{"s": "a\nb"}, {"s": "a\nb"}]


def test_a_value_nested_too_deep_is_refused_in_words(server: Stdio) -> None:
    found = query(server, f"SELECT {'[' * 300}1{']' * 300} AS deep")
    assert found["error"] == "too_large"
