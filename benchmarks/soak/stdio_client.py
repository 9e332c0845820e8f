"""A client over stdio whose relay joins the HTTP server on its data directory."""

import asyncio
import json
from pathlib import Path
from typing import Any

from benchmarks.soak.servers import STOP_TIMEOUT_S, environment, memory_mcp
from benchmarks.streamable import LEGACY, CallFailed

MAX_LINE_BYTES = 16 * 1024 * 1024


class StdioClient:
    """It has what a Visitor needs of benchmarks.streamable.Client."""

    def __init__(self, data_dir: Path, name: str) -> None:
        self.notifications = 0
        self._data_dir = data_dir
        self._name = name
        self._last_id = 0

    async def open(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            *memory_mcp("--data-dir", self._data_dir),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=environment(),
            limit=MAX_LINE_BYTES,
        )
        info = {"name": self._name, "version": "1"}
        await self._ask("initialize", {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": info}, "initialize")
        await self._send({"method": "notifications/initialized"})

    async def call(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """What the tool answers. Raises CallFailed."""
        result = await self._ask("tools/call", {"name": tool, "arguments": arguments}, tool)
        if result.get("isError"):
            raise CallFailed(f"{tool}: {result['content']}")
        answer: dict[str, Any] = result.get("structuredContent") or {}
        return answer

    async def read(self, uri: str) -> Any:
        result = await self._ask("resources/read", {"uri": uri}, uri)
        return json.loads(result["contents"][0]["text"])

    async def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        await asyncio.wait_for(self._process.communicate(), STOP_TIMEOUT_S)

    async def _ask(self, method: str, params: dict[str, Any], name: str) -> dict[str, Any]:
        self._last_id += 1
        await self._send({"id": self._last_id, "method": method, "params": params})
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            answer = json.loads(line)
            if answer.get("id") == self._last_id:
                if "result" not in answer:
                    raise CallFailed(f"{name}: {answer}")
                result: dict[str, Any] = answer["result"]
                return result
            self.notifications += "method" in answer
        raise CallFailed(f"{name}: the relay has ended")

    async def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        await self._process.stdin.drain()
