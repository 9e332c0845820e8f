"""A request body that never ends, or takes long to parse, does not block the hub."""

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from memory_mcp import settings
from memory_mcp.app import open_hub
from memory_mcp.caller import ALL_SCOPES, LOCAL_USER
from memory_mcp.server import hub as hub_server
from tests.events import TIMEOUT_S


async def dripping() -> AsyncIterator[bytes]:
    yield b'{"node": "a", '
    await asyncio.Event().wait()


def test_an_incomplete_body_times_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_server, "MAX_BODY_S", 0.2)
    chosen = settings.load({"data_dir": tmp_path}, environ={}).settings
    with open_hub(chosen) as app:
        key = app.access.keys.create(name="node", user=LOCAL_USER, scopes=ALL_SCOPES).raw

        async def push() -> httpx.Response:
            transport = httpx.ASGITransport(hub_server.asgi(app), client=("127.0.0.1", 1))
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
                headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
                return await client.post("/api/sync/push", content=dripping(), headers=headers)

        refused = asyncio.run(push())
    assert refused.status_code == 408
    assert "seconds" in refused.text


def test_other_requests_are_answered_while_a_body_is_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parsing, is_answered = threading.Event(), threading.Event()

    def count(body: bytes, max_values: int) -> int:
        parsing.set()
        assert is_answered.wait(TIMEOUT_S)
        return min(len(body), max_values)

    monkeypatch.setattr(hub_server, "count_values", count)
    chosen = settings.load({"data_dir": tmp_path}, environ={}).settings
    with open_hub(chosen) as app:
        key = app.access.keys.create(name="node", user=LOCAL_USER, scopes=ALL_SCOPES).raw

        async def push() -> httpx.Response:
            transport = httpx.ASGITransport(hub_server.asgi(app), client=("127.0.0.1", 1))
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
                headers = {"Authorization": f"Bearer {key}"}
                body = {"node": "a", "records": []}
                pushed = asyncio.ensure_future(client.post("/api/sync/push", json=body, headers=headers))
                assert await asyncio.to_thread(parsing.wait, TIMEOUT_S)
                assert (await client.get("/healthz")).is_success
                is_answered.set()
                return await pushed

        assert asyncio.run(push()).status_code == 200
