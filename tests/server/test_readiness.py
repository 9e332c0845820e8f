"""Whether a server wants requests, its drain at SIGTERM, and the ids of requests."""

import json
import logging
from pathlib import Path

import pytest

from memory_mcp import logs
from memory_mcp.errors import Unavailable
from memory_mcp.server.http_server import Readiness
from tests.events import TIMEOUT_S
from tests.wire import http_server


def test_a_draining_server_answers_and_says_that_it_is_not_ready(tmp_path: Path) -> None:
    flags = ["--embedder", "none", "--families", "vault", "--drain-seconds", "600"]
    with http_server(tmp_path, *flags) as server:
        ready = server.client.get("/readyz")
        assert (ready.status_code, ready.json()) == (200, {"status": "ready"})
        server.process.terminate()
        draining = server.client.get("/readyz")
        assert (draining.status_code, draining.json()) == (503, {"status": "draining"})
        assert server.client.get("/healthz").status_code == 200
        assert server.modern_call("commit_memory", scope="vault", key="k", content="c")["key"] == "k"
        server.process.terminate()  # a second signal ends it at once
        assert server.process.wait(timeout=TIMEOUT_S) == 0


@pytest.mark.anyio
async def test_a_server_whose_database_cannot_be_read_is_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    problems = [Unavailable("The database cannot be reached."), None]

    def check() -> None:
        if problem := problems.pop(0):
            raise problem

    readiness = Readiness(check_database=check)
    answers = [await readiness.answer(None) for _ in range(2)]  # type: ignore[arg-type]  # which it does not use
    assert [answer.status_code for answer in answers] == [503, 503]  # the second is that of the same second
    assert json.loads(bytes(answers[0].body))["message"] == "The database cannot be reached."
    monkeypatch.setattr("memory_mcp.server.http_server.CHECK_INTERVAL_S", 0.0)
    assert (await readiness.answer(None)).status_code == 200  # type: ignore[arg-type]


def test_every_answer_and_every_log_line_has_the_id_of_its_request(tmp_path: Path) -> None:
    with http_server(tmp_path, "--embedder", "none", "--families", "vault") as server:
        assert server.client.get("/healthz", headers={"X-Request-Id": "a-1.b_2"}).headers["x-request-id"] == "a-1.b_2"
        refused = server.client.get("/mcp", headers={"X-Request-Id": "x" * 65})
        assert refused.status_code == 401
        assert len(refused.headers["x-request-id"]) == 32
    record = logging.LogRecord("memory_mcp", logging.WARNING, "", 0, "Something failed", (), None)
    token = logs.request_id.set("a-1")
    try:
        assert json.loads(logs.JsonLines().format(record))["request_id"] == "a-1"
    finally:
        logs.request_id.reset(token)
    assert "request_id" not in json.loads(logs.JsonLines().format(record))
