"""A client that adds almost nothing: MCP over Streamable HTTP, on a connection that stays open."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

MODERN = "2026-07-28"
LEGACY = "2025-11-25"


class CallFailed(Exception):
    """Anything but the expected answer: a status, a JSON-RPC error, a tool's refusal, a broken line."""


class Wire:
    """One HTTP/1.1 connection."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def send(self, method: str, headers: dict[str, str], body: bytes = b"") -> tuple[int, dict[str, str]]:
        """The status and headers of the answer, whose body is to be read next."""
        if self._streams is not None and self._streams[0].at_eof():
            self.close()  # idle for too long: the server has hung up
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        head = {"Host": f"127.0.0.1:{self._port}", "Content-Length": str(len(body)), **headers}
        lines = [f"{method} /mcp HTTP/1.1", *(f"{name}: {value}" for name, value in head.items()), "", ""]
        writer.write("\r\n".join(lines).encode() + body)
        status, *received = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")[:-2]
        pairs = (line.split(": ", 1) for line in received)
        return int(status.split()[1]), {name.lower(): value for name, value in pairs}

    async def body(self, headers: dict[str, str]) -> AsyncIterator[bytes]:
        """Piece by piece, as the server sent it."""
        assert self._streams is not None
        reader, _ = self._streams
        if headers.get("transfer-encoding") != "chunked":
            yield await reader.readexactly(int(headers.get("content-length", 0)))
            return
        while size := int(await reader.readuntil(b"\r\n"), 16):
            yield (await reader.readexactly(size + 2))[:-2]
        await reader.readexactly(2)

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


class Client:
    """One MCP client. A modern one says everything with each request; a legacy one shakes hands and keeps a stream."""

    def __init__(self, port: int, name: str, key: str | None, *, legacy: bool) -> None:
        self.legacy = legacy
        self.notifications = 0  # notifications on the stream of a legacy client
        self._port = port
        self._name = name
        self._wire = Wire(port)
        self._headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
        if key:
            self._headers["Authorization"] = f"Bearer {key}"
        self._listening: asyncio.Task[None] | None = None

    async def open(self) -> None:
        if not self.legacy:
            self._headers["MCP-Protocol-Version"] = MODERN
            return
        info = {"name": self._name, "version": "1"}
        hello = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": info}
        headers, _ = await self._post({"id": 0, "method": "initialize", "params": hello})
        self._headers |= {"Mcp-Session-Id": headers["mcp-session-id"], "MCP-Protocol-Version": LEGACY}
        await self._post({"method": "notifications/initialized"})
        self._listening = asyncio.create_task(self._listen())

    async def call(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """What the tool answers. Raises CallFailed."""
        result = await self.ask("tools/call", {"name": tool, "arguments": arguments}, tool)
        if result.get("isError"):
            raise CallFailed(f"{tool}: {result['content']}")
        answer: dict[str, Any] = result.get("structuredContent") or {}
        return answer

    async def read(self, uri: str) -> Any:
        result = await self.ask("resources/read", {"uri": uri}, uri)
        return json.loads(result["contents"][0]["text"])

    async def ask(self, method: str, params: dict[str, Any], name: str) -> dict[str, Any]:
        extra = {}
        if not self.legacy:
            extra = {"Mcp-Method": method, "Mcp-Name": name}
            params = params | {
                "_meta": {
                    "io.modelcontextprotocol/protocolVersion": MODERN,
                    "io.modelcontextprotocol/clientCapabilities": {},
                    "io.modelcontextprotocol/clientInfo": {"name": self._name, "version": "1"},
                }
            }
        _, answer = await self._post({"id": 1, "method": method, "params": params}, extra)
        if "result" not in answer:
            raise CallFailed(f"{name}: {answer}")
        result: dict[str, Any] = answer["result"]
        return result

    async def close(self) -> None:
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.gather(self._listening, return_exceptions=True)
        self._wire.close()

    async def _post(
        self, message: dict[str, Any], extra: dict[str, str] | None = None
    ) -> tuple[dict[str, str], dict[str, Any]]:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        try:
            status, headers = await self._wire.send("POST", self._headers | (extra or {}), body)
            text = b"".join([piece async for piece in self._wire.body(headers)]).decode()
        except (OSError, EOFError) as exc:
            self._wire.close()
            raise CallFailed(f"The connection broke: {exc!r}") from exc
        if status not in (200, 202):
            raise CallFailed(f"{status}: {text[:500]}")
        return headers, _answer(text, headers)

    async def _listen(self) -> None:
        """Keep the stream open on which a server speaks by itself, as clients of the SDK do."""
        wire = Wire(self._port)
        try:
            status, headers = await wire.send("GET", self._headers)
            if status == 200:
                async for piece in wire.body(headers):
                    self.notifications += piece.count(b"data: {")
        except (EOFError, OSError):
            pass  # the server stops
        finally:
            wire.close()


def _answer(text: str, headers: dict[str, str]) -> dict[str, Any]:
    if not text:
        return {}
    if not headers["content-type"].startswith("text/event-stream"):
        answer: dict[str, Any] = json.loads(text)
        return answer
    messages = (json.loads(line.removeprefix("data: ")) for line in text.splitlines() if line.startswith("data: {"))
    return next((message for message in messages if "id" in message), {})
