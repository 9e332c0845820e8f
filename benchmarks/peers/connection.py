"""A server behind the SDK's own client, over stdio."""

import json
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp_types import CallToolResult

from benchmarks.peers.adapters import Adapter, Request
from benchmarks.peers.installation import Installed

CALL_TIMEOUT_S = 120.0
START_TIMEOUT_S = 180.0


class CallFailed(Exception):
    """A call that was refused, was not answered in time, or lost its server."""


@dataclass(frozen=True)
class Answer:
    """What a tool answered: all its texts, and the seconds it took."""

    text: str
    seconds: float


@dataclass
class Connection:
    client: Client
    adapter: Adapter
    start_s: float
    tools: list[dict[str, Any]]

    async def call(self, request: Request) -> Answer:
        """Raises CallFailed."""
        started = time.perf_counter()
        try:
            with anyio.fail_after(CALL_TIMEOUT_S):
                result = await self.client.call_tool(*request)
        except Exception as exc:  # whatever a peer and the SDK make of it, the call has failed
            raise CallFailed(f"{type(exc).__name__}: {exc}") from exc
        answer = Answer(_text(result), time.perf_counter() - started)
        if result.is_error or self.adapter.is_refusal(answer.text):
            raise CallFailed(answer.text[:300])
        return answer


@asynccontextmanager
async def connect(installed: Installed) -> AsyncIterator[Connection]:
    """Start the server as a client does, and list its tools. Raises CallFailed if it does not come up, or is gone."""
    parameters = StdioServerParameters(
        command=installed.command[0], args=list(installed.command[1:]), env=installed.environ, cwd=installed.home
    )
    try:
        with installed.log.open("a", encoding="utf-8") as log:
            started = time.perf_counter()
            transport = stdio_client(parameters, log)
            async with Client(transport, mode="legacy", read_timeout_seconds=START_TIMEOUT_S) as client:
                listed = await client.list_tools()
                start_s = time.perf_counter() - started
                tools = [tool.model_dump(mode="json", exclude_none=True, by_alias=True) for tool in listed.tools]
                yield Connection(client, installed.adapter, start_s, tools)
    except (ExceptionGroup, MCPError, OSError) as exc:
        cause = _cause(exc)
        if not isinstance(cause, CallFailed | MCPError | OSError):
            raise
        raise CallFailed(f"{cause}; the server's last line: {_last_line(installed)}") from exc


def _cause(exc: Exception) -> Exception:
    return _cause(exc.exceptions[0]) if isinstance(exc, ExceptionGroup) else exc


def _last_line(installed: Installed) -> str:
    text = installed.log.read_text(encoding="utf-8", errors="replace").replace(str(installed.home), "~")
    lines = text.splitlines()
    return next((line.strip()[:200] for line in reversed(lines) if any(map(str.isalnum, line))), "no output")


def _text(result: CallToolResult) -> str:
    return "\n".join(block.text for block in result.content if block.type == "text")


def plain(text: str) -> str:
    """The text with its white space collapsed and, where it is JSON, the strings that it holds."""
    return " ".join(" ".join([text, *_strings_of(text)]).split())


def _strings_of(text: str) -> Iterator[str]:
    try:
        yield from _strings(json.loads(text))
    except ValueError:
        return


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _strings(inner)
