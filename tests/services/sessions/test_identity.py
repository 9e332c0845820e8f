"""Which session a call belongs to, in the order the contract gives."""

from pathlib import Path
from typing import Any

import pytest

from tests.processes import environment
from tests.wire import HELLO, Stdio, http_server


def session_of(server: Stdio, **meta: Any) -> str:
    """The session id a call would run under: resources/list names it."""
    listed = server.ask("resources/list", {"_meta": meta})["result"]["resources"]
    return str(next(r["uri"] for r in listed if r["uri"].startswith("memory://session/"))).rsplit("/", 1)[1]


def test_session_id_precedence_on_stdio(tmp_path: Path) -> None:
    announced = HELLO | {"clientInfo": {"name": "c", "version": "1", "extra": {"sessionId": "announced"}}}
    server = Stdio.start(tmp_path, env=environment(MEMORY_MCP_SESSION_ID="environment"), hello=False)
    server.ask("initialize", announced)
    server.send({"method": "notifications/initialized"})

    assert session_of(server) == "announced"
    assert session_of(server, **{"memory-mcp/sessionId": "named"}) == "named"
    assert session_of(server) == "announced"
    server.call("set_session_id", session_id="chosen")
    assert session_of(server) == "chosen"
    assert session_of(server, **{"memory-mcp/sessionId": "named"}) == "chosen"
    server.close()


def test_the_environment_sets_the_default_session(tmp_path: Path) -> None:
    server = Stdio.start(tmp_path, env=environment(MEMORY_MCP_SESSION_ID="environment"))
    assert session_of(server) == "environment"
    server.close()


def test_unnamed_connections_have_separate_sessions(tmp_path: Path) -> None:
    one, two = Stdio.start(tmp_path), Stdio.start(tmp_path)
    assert session_of(one) != session_of(two)
    assert session_of(one) == session_of(one)
    one.close()
    two.close()


@pytest.mark.parametrize("bad", [5, "x" * 129, ["a"]])
def test_invalid_session_ids_are_refused(tmp_path: Path, bad: object) -> None:
    server = Stdio.start(tmp_path)
    answer = server.ask("resources/list", {"_meta": {"memory-mcp/sessionId": bad}})
    assert answer["error"]["code"] == -32602
    assert answer["error"]["data"]["error"] == "invalid"
    server.close()


def test_over_http_the_handshake_or_each_request_names_the_session(tmp_path: Path) -> None:
    with http_server(tmp_path) as server:
        info = {"name": "claude-agent", "version": "1.0", "extra": {"sessionId": "sess_abc123"}}
        session = server.handshake(info)
        arguments = {"scope": "session", "key": "k", "content": "kept here"}
        server.legacy(session, "tools/call", {"name": "commit_memory", "arguments": arguments})

        found = server.modern_call(
            "search_memories",
            {"io.modelcontextprotocol/clientInfo": info},
            query="kept",
            scope="session",
        )
        assert found["total_searched"] == 1
        assert server.modern_call("search_memories", query="kept", scope="session")["total_searched"] == 0


def test_without_a_handshake_key_and_client_name_are_the_session(tmp_path: Path) -> None:
    with http_server(tmp_path) as server:
        server.modern_call("commit_memory", scope="session", key="k", content="kept")
        other = {"io.modelcontextprotocol/clientInfo": {"name": "another", "version": "1"}}

        assert server.modern_call("search_memories", query="kept", scope="session")["total_searched"] == 1
        assert server.modern_call("search_memories", other, query="kept", scope="session")["total_searched"] == 0
        server.modern_call("set_session_id", session_id="chosen")
        assert server.modern_call("search_memories", query="kept", scope="session")["total_searched"] == 0


def test_without_a_handshake_a_chosen_session_affects_no_other_agent(tmp_path: Path) -> None:
    with http_server(tmp_path) as server:
        named = {"memory-mcp/sessionId": "B"}
        server.modern_call("commit_memory", named, scope="session", key="k", content="of B")
        server.modern_call("set_session_id", session_id="ZZ")
        server.modern_call("commit_memory", scope="session", key="k", content="of ZZ")

        [hit] = server.modern_call("search_memories", named, query="of", scope="session")["results"]
        assert hit["content"] == "of B"
        [hit] = server.modern_call("search_memories", query="of", scope="session")["results"]
        assert hit["content"] == "of ZZ"
