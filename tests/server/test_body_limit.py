"""Bodies that are small as bytes and large in memory are refused before they are parsed, on every way in."""

import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from memory_mcp.text.json_counts import MAX_CONTAINERS, has_too_many_containers
from tests.server.test_rest import signed_in
from tests.wire import HELLO, MODERN, Http, http_server, modern_meta

TOO_MANY = "[" + ",".join(["[" * 90 + "]" * 90] * (MAX_CONTAINERS // 90 + 1)) + "]"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Http]:
    with http_server(tmp_path_factory.mktemp("bodies"), "--embedder", "none") as running:
        yield running


def body(arguments: str, tool: str = "memory_search") -> str:
    meta = json.dumps(modern_meta())
    params = f'{{"name":"{tool}","arguments":{arguments},"_meta":{meta}}}'
    return f'{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}'


def post(server: Http, content: str | bytes, path: str = "/mcp", **headers: str) -> httpx.Response:
    sent = server.headers(**{"Content-Type": "application/json", **headers})
    return server.client.post(path, content=content, headers=sent)


def assert_refused(answer: httpx.Response) -> None:
    assert (answer.status_code, answer.json()["error"]) == (413, "too_large"), answer.text
    assert "110,000 lists and objects" in answer.text


def modern_headers(tool: str = "memory_search") -> dict[str, str]:
    return {"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/call", "Mcp-Name": tool}


def test_without_a_handshake(server: Http) -> None:
    assert_refused(post(server, body(f'{{"query":{TOO_MANY}}}'), **modern_headers()))


def test_with_a_handshake(server: Http) -> None:
    session = {"mcp-session-id": server.handshake()}
    assert_refused(post(server, body(f'{{"query":{TOO_MANY}}}'), **session))
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}
    assert_refused(post(server, json.dumps(hello).replace('"capabilities": {}', f'"capabilities": {TOO_MANY}')))


def test_over_sse(server: Http) -> None:
    with server.client.stream("GET", "/mcp/sse", headers=server.headers()) as stream:
        lines = stream.iter_lines()
        found = next(filter(None, (re.match(r"data: (\S+)", line) for line in lines)))
        assert_refused(post(server, body(f'{{"query":{TOO_MANY}}}'), found[1]))


def test_over_rest(server: Http) -> None:
    me = signed_in(server, server.link)
    json_type = {"Content-Type": "application/json"}
    answer = me.ask("POST", "/api/tools/memory_search", content=f'{{"query":{TOO_MANY}}}', headers=json_type)
    assert_refused(answer)
    utf_16 = f'{{"query":{TOO_MANY}}}'.encode("utf-16")
    assert_refused(me.ask("POST", "/api/tools/memory_search", content=utf_16, headers=json_type))


def test_brackets_in_a_text_are_text(server: Http) -> None:
    text = '[{"' * 200_000
    kept = server.modern_call("memory_create", content=text)
    assert server.modern_call("memory_get", id=kept["id"])["content"] == text


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([[]] * 9, False),
        ([[]] * 10, True),
        ([{"a": 1}] * 9, False),
        ([{"a": 1}] * 10, True),
        (["[[[[[[[[[[[["], False),
        (['\\"[[[[[[[[[[[[', "\\"], False),
        ({'"[[[[': "[[[[{{{{", "\\\\": ["{", []]}, False),
    ],
)
def test_what_is_counted(value: Any, expected: bool) -> None:
    assert has_too_many_containers(json.dumps(value).encode(), 10) is expected
