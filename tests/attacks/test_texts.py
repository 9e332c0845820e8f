"""Hostile texts in every text field of every tool are refused in plain words or stored, and the server stays up."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.exhaustive import IS_SOAK
from tests.server.fuzz_messages import Fuzz
from tests.server.test_fuzz import indiscretions
from tests.wire import Http, http_server, modern_meta

TEXTS = (
    "\u202eabc\u202c",  # right-to-left override
    "a\u200bb\u2060c\ufeffd",  # invisible
    "\x00",
    "\x1b]0;title\x07\x1b[2J",  # commands to a terminal
    "\ud800",
    "\U000e0041\U000e0042",  # letters that people do not see, but models read
    "<img src=x onerror=alert(1)>",
    "${jndi:ldap://127.0.0.1/x}{{7*7}}%n%s",
    "../" * 50 + "etc/passwd",
    "' UNION SELECT sqlite_version() --",
    'x" OR content:* NEAR(',
)
LONG = "x" * (10 * 1024 * 1024)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Http]:
    with http_server(tmp_path_factory.mktemp("texts"), "--embedder", "none") as running:
        running.modern_call("create_project", name="fuzz")
        running.modern_call("portal_write", portalUri="mem://fuzz/one", table="t", data=[{"n": 1}])
        running.modern_call("add_memory", store="fuzz", path="a/b", content="c")
        yield running


def text_fields(schema: dict[str, Any]) -> Iterator[str]:
    for name, field in schema.get("properties", {}).items():
        kinds = field.get("type", "string")
        if "string" in (kinds if isinstance(kinds, list) else [kinds]) and "enum" not in field:
            yield name


def test_no_text_in_any_field_of_any_tool_does_harm(
    server: Http, record_property: Callable[[str, object], None]
) -> None:
    tools = server.modern("tools/list")["result"]["tools"]
    fuzz, attempts = Fuzz(1, tools, modern=True), 0
    for tool in tools:
        for number, name in enumerate(text_fields(tool["inputSchema"])):
            chosen = TEXTS if IS_SOAK else (TEXTS[(number + len(tool["name"])) % len(TEXTS)],)
            for text in chosen:
                given = {**fuzz.fitting(tool["inputSchema"]), name: text}
                answer = _call(server, tool["name"], given)
                shown = json.dumps(answer, ensure_ascii=False).replace(text, "")
                assert indiscretions(shown, server.data_dir) == [], (tool["name"], name, text)
                attempts += 1
    assert server.client.get("/healthz").is_success
    record_property("attempts", attempts)


def _call(server: Http, tool: str, given: dict[str, Any]) -> Any:
    """As bytes with escapes: a text may be half of a surrogate pair, which no client library sends."""
    params = {"name": tool, "arguments": given, "_meta": modern_meta()}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode("ascii")
    headers = server.headers(
        **server.modern_headers("tools/call", {"name": tool}), **{"Content-Type": "application/json"}
    )
    answer = server.client.post("/mcp", content=body, headers=headers)
    assert answer.status_code < 500 or answer.status_code == 503, answer.text
    return answer.text


def test_fields_of_ten_megabytes_are_refused(server: Http, record_property: Callable[[str, object], None]) -> None:
    calls = (
        ("commit_memory", {"scope": "vault", "key": "k", "content": LONG}),
        ("memory_create", {"content": LONG}),
        ("memory_search", {"query": LONG}),
        ("add_memory", {"store": "fuzz", "path": "long", "content": LONG}),
        ("create_entities", {"project": "fuzz", "entities": [{"name": LONG, "entity_type": "t"}]}),
        ("portal_query", {"portalUri": "mem://fuzz/one", "sql": LONG}),
        ("recall_memories", {"query": LONG}),
    )
    for tool, given in calls:
        body = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": tool, "arguments": given, "_meta": modern_meta()},
        }
        answer = server.client.post(
            "/mcp", json=body, headers=server.headers(**server.modern_headers("tools/call", {"name": tool}))
        )
        assert answer.status_code in (200, 400, 413), answer.text[:300]
        assert answer.status_code == 413 or '"isError":true' in answer.text.replace(" ", "") or '"error"' in answer.text
    record_property("attempts", len(calls))
