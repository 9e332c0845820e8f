"""A body that never ends does not keep the hub waiting."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from memory_mcp import settings
from memory_mcp.app import open_hub
from memory_mcp.caller import ALL_SCOPES, LOCAL_USER
from memory_mcp.server import hub as doors


async def dripping() -> AsyncIterator[bytes]:
    yield b'{"node": "a", '
    await asyncio.Event().wait()


def test_a_body_that_stops_on_the_way_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doors, "MAX_BODY_S", 0.2)
    chosen = settings.load({"data_dir": tmp_path}, environ={}).settings
    with open_hub(chosen) as app:
        key = app.access.keys.create(name="node", user=LOCAL_USER, scopes=ALL_SCOPES).raw

        async def push() -> httpx.Response:
            transport = httpx.ASGITransport(doors.asgi(app), client=("127.0.0.1", 1))
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
                headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
                return await client.post("/api/sync/push", content=dripping(), headers=headers)

        refused = asyncio.run(push())
    assert refused.status_code == 408
    assert "seconds" in refused.text
