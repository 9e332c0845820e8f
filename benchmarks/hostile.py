"""Attacks on a server, all at once and from many connections, for `benchmarks.soak_hostile`.

A process of its own, so that its work does not slow down the victim's calls. It reads what to
attack as JSON from stdin, attacks until it is killed or its time is over, and prints how often each attack did what.
Loopback only; every loop is bounded in time and in connections.
"""

import asyncio
import base64
import io
import json
import os
import random
import re
import sys
import tarfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

from benchmarks.streamable import MODERN, CallFailed, Client

HOST = "127.0.0.1"
PORTALS = tuple(f"mem://hostile/p{number}" for number in range(8))  # an attack on one does not wait for another's
NICENESS = 5  # the attacker's own work must not take the processor from the server
QUERY_CONNECTIONS, QUERY_HANG_UP_S = 24, 0.3
SESSION_CONNECTIONS = 8
LORIS_CONNECTIONS, LORIS_DRIP_S = 200, 3.0
STRANGERS = 4
IMPORTERS = 4
EXPORTERS = 6
SEARCHERS = 4
STATES = 4
PAUSE_S = 0.05  # between two calls of a loop that is refused at once
CALL_TIMEOUT_S = 30.0
PIECE_BYTES = 512 * 1024
SLOW_QUERY = "SELECT sum(editDistance(materialize(repeat('a',60000)),repeat('b',60000))) FROM numbers(2000)"
LONG_QUERY_BYTES = 1_000_000
LONG_QUERIES = 4
CRAFTED_STATES = (
    "SELECT finalizeAggregation(CAST(unhex('FFFFFFFFFFFFFFFF7F'), 'AggregateFunction(groupArray, UInt64)'))",
    "SELECT groupArrayMerge(CAST(unhex('FFFFFFFFFFFFFFFF7F'), 'AggregateFunction(groupArray, String)'))",
    "SELECT uniqMerge(CAST(unhex('FFFFFFFF0F'), 'AggregateFunction(uniq, String)'))",
    "SELECT quantileTDigestMerge(CAST(unhex('FFFFFFFF0F'), 'AggregateFunction(quantileTDigest, Float64)'))",
    "SELECT topKMerge(10)(x) FROM (SELECT CAST(unhex('FF7F'), 'AggregateFunction(topK(10), String)') AS x)",
    "SELECT groupBitmapMerge(CAST(unhex('01FFFFFFFF0F'), 'AggregateFunction(groupBitmap, UInt32)'))",
    "SELECT x::AggregateFunction(sumMap, Array(String), Array(UInt64)) FROM (SELECT unhex('FFFFFFFF0F') AS x)",
)


@dataclass(frozen=True)
class Target:
    """What is attacked, by whom, and for how long at most."""

    port: int
    writer: str  # a key that may do everything in its own tenant
    reader: str  # a key that may read
    seconds: float
    only: str = ""  # the name of the one attack to make; all of them without a name


class Attacks:
    def __init__(self, target: Target) -> None:
        self._target = target
        self._end = time.monotonic() + target.seconds
        self._random = random.Random(7)
        self.counts: dict[str, Counter[str]] = {}

    async def run(self) -> None:
        async with asyncio.TaskGroup() as together:
            for attack, times in (
                (self._slow_queries, QUERY_CONNECTIONS),
                (self._sparse_files, IMPORTERS),
                (self._bombs, IMPORTERS),
                (self._sessions, SESSION_CONNECTIONS),
                (self._half_sent, LORIS_CONNECTIONS),
                (self._strangers, STRANGERS),
                (self._exports, EXPORTERS),
                (self._crafted_states, STATES),
                (self._long_searches, SEARCHERS),
            ):
                if self._target.only in ("", _name(attack)):
                    for number in range(times):
                        together.create_task(self._repeat(attack, number))

    async def _repeat(self, attack: Callable[[int], Awaitable[str]], number: int) -> None:
        """Attack again and again, whatever the server does about it."""
        count = self.counts.setdefault(_name(attack), Counter())
        while (left := self._end - time.monotonic()) > 0:
            try:
                async with asyncio.timeout(min(left, CALL_TIMEOUT_S)):
                    count[await attack(number)] += 1
            except TimeoutError:
                count["no answer"] += 1
            except (OSError, EOFError) as exc:
                if isinstance(exc, ConnectionRefusedError):  # the server has ended
                    return
                count["disconnected"] += 1
            except CallFailed as exc:
                if isinstance(exc.__cause__, ConnectionRefusedError):
                    return
                count["disconnected" if exc.__cause__ else _reason(str(exc))] += 1
            await asyncio.sleep(min(PAUSE_S, max(0.0, self._end - time.monotonic())))

    # Each returns what the server did.

    async def _slow_queries(self, number: int) -> str:
        """Ask for a query that takes minutes, and hang up without waiting for it."""
        key = self._target.reader if number % 2 else self._target.writer
        reader, writer = await self._connect()
        try:
            writer.write(self._request("portal_query", {"portalUri": PORTALS[number % 4], "sql": SLOW_QUERY}, key))
            await writer.drain()
            with suppress(TimeoutError):
                async with asyncio.timeout(QUERY_HANG_UP_S * (1 + self._random.random())):
                    return (await reader.readline()).decode("latin-1").strip() or "disconnected"
            return "hung up"
        finally:
            writer.close()

    async def _sparse_files(self, number: int) -> str:
        """A portal file of a few kB whose header promises terabytes."""
        return await self._import(PORTALS[4], f"sparse-{number}.db", sparse_tar(), "db", None)

    async def _bombs(self, number: int) -> str:
        """Files that become far larger when they are read."""
        name, content, kind = BOMBS[number % len(BOMBS)]
        return await self._import(PORTALS[5], f"{number}-{name}", content(), kind, f"bomb_{number}")

    async def _import(self, portal: str, name: str, content: bytes, kind: str, table: str | None) -> str:
        client = await self._client(self._target.writer)
        try:
            source = ""
            for offset in range(0, len(content), PIECE_BYTES):
                piece = base64.b64encode(content[offset : offset + PIECE_BYTES]).decode()
                uploaded = await client.call("portal_upload", {"name": name, "offset": offset, "data": piece})
                source = uploaded["source"]
            arguments = {"portalUri": portal, "source": source, "format": kind} | ({"table": table} if table else {})
            await client.call("portal_import", arguments)
            return "imported"
        finally:
            await client.close()

    async def _sessions(self, number: int) -> str:
        """A handshake, and no further message."""
        client = Client(self._target.port, f"hostile-{number}", self._target.reader, legacy=True)
        await client.open()
        if self._random.random() < 0.5:  # half of them leave their streams open until the next one
            await client.close()
        else:
            asyncio.get_running_loop().call_later(5.0, lambda: asyncio.ensure_future(client.close()))
        return "opened"

    async def _half_sent(self, number: int) -> str:
        """A request of which one byte comes now and then, its head or its body, with a key or without."""
        reader, writer = await self._connect()
        request = self._request("memory_recent", {}, self._target.reader if number % 3 == 0 else None)
        head = request.index(b"\r\n\r\n")
        sent = 20 if number % 2 else head + 10
        try:
            writer.write(request[:sent])
            while sent < len(request) - 1:
                with suppress(TimeoutError):
                    async with asyncio.timeout(LORIS_DRIP_S):
                        return (await reader.readline()).decode("latin-1").strip() or "disconnected"
                writer.write(request[sent : sent + 1])
                await writer.drain()
                sent += 1
            return "sent"
        finally:
            writer.close()

    async def _strangers(self, number: int) -> str:
        """Made-up keys, which the server must compare all the same, and bodies without a key."""
        identity = self._target.reader.split("_")[1]
        wrong = f"mmcp_{identity}_{''.join(self._random.choices('abcdefghij0123456789', k=43))}"
        arguments = {"query": "x" * 500_000} if number % 2 else {}
        reader, writer = await self._connect()
        try:
            writer.write(self._request("memory_search", arguments, wrong if number < 2 else None))
            return (await reader.readline()).decode("latin-1").strip()
        finally:
            writer.close()

    async def _exports(self, number: int) -> str:
        client = await self._client(self._target.reader)
        name = f"flood-{number}-{self._random.randrange(10**9)}.csv"
        query = "SELECT number, repeat('x', 200) AS x FROM numbers(2000000)"
        try:
            await client.call(
                "portal_export", {"portalUri": PORTALS[6], "destination": name, "format": "csv", "query": query}
            )
            return "exported"
        finally:
            await client.close()

    async def _crafted_states(self, number: int) -> str:
        client = await self._client(self._target.reader)
        try:
            await client.call("portal_query", {"portalUri": PORTALS[7], "sql": self._random.choice(CRAFTED_STATES)})
            return "answered"
        finally:
            await client.close()

    async def _long_searches(self, number: int) -> str:
        words = self._random.choice(long_queries())
        client = await self._client(self._target.reader)
        try:
            tool = ("recall_memories", "memory_search")[number % 2]
            await client.call(tool, {"query": words})
            return "answered"
        finally:
            await client.close()

    async def _client(self, key: str) -> Client:
        client = Client(self._target.port, "hostile", key, legacy=False)
        await client.open()
        return client

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(HOST, self._target.port)

    def _request(self, tool: str, arguments: dict[str, Any], key: str | None) -> bytes:
        """One tool call without a handshake, as bytes."""
        meta = {
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": {"name": "hostile", "version": "1"},
        }
        params = {"name": tool, "arguments": arguments, "_meta": meta}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
        lines = [
            "POST /mcp HTTP/1.1",
            f"Host: {HOST}:{self._target.port}",
            "Accept: application/json, text/event-stream",
            "Content-Type: application/json",
            f"MCP-Protocol-Version: {MODERN}",
            "Mcp-Method: tools/call",
            f"Mcp-Name: {tool}",
            f"Content-Length: {len(body)}",
            *([f"Authorization: Bearer {key}"] if key else []),
            "",
            "",
        ]
        return "\r\n".join(lines).encode() + body


@cache
def long_queries() -> list[str]:
    """Made once: writing them must not take the processor from the server."""
    chosen = random.Random(7)
    words = (f"word{chosen.randrange(10**6)}*" for _ in range(LONG_QUERIES * LONG_QUERY_BYTES // 12))
    text = " ".join(words)
    return [text[start : start + LONG_QUERY_BYTES] for start in range(0, len(text), LONG_QUERY_BYTES)][:LONG_QUERIES]


@cache
def sparse_tar() -> bytes:
    """A tar file with a sparse part: eight terabytes by its header, nothing in the file."""
    packed = io.BytesIO()
    entry = tarfile.TarInfo("data/portal/t/all_1_1_0/data.bin")
    entry.type = tarfile.GNUTYPE_SPARSE
    entry.size = 0
    header = bytearray(entry.tobuf(tarfile.GNU_FORMAT))
    header[386:398] = b"77777777777\0"  # offset of the only piece
    header[398:410] = b"00000000000\0"
    header[483:495] = b"77777777777\0"  # its real size
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    packed.write(bytes(header) + b"\0" * 1024)
    return packed.getvalue()


@cache
def parquet_bomb() -> bytes:
    """A dictionary of one text of 1 MB, named by two million rows: two terabytes from a few kB."""
    import pyarrow as pa  # type: ignore[import-untyped]  # it has no types
    import pyarrow.parquet as pq  # type: ignore[import-untyped]  # the same

    names = pa.array([0] * 2_000_000, pa.int32())
    column = pa.DictionaryArray.from_arrays(names, pa.array(["x" * 1_000_000]))
    packed = io.BytesIO()
    pq.write_table(pa.table({"x": column}), packed, compression="zstd")
    return packed.getvalue()


@cache
def nested_json() -> bytes:
    depth = 200_000
    return b'{"a":' * depth + b"1" + b"}" * depth


@cache
def wide_json() -> bytes:
    """Records with ever new columns."""
    rows = ({f"c{row}_{column}": "x" for column in range(1000)} for row in range(100))
    return json.dumps(list(rows)).encode()


BOMBS: list[tuple[str, Callable[[], bytes], str]] = [
    ("bomb.parquet", parquet_bomb, "parquet"),
    ("deep.json", nested_json, "json"),
    ("wide.json", wide_json, "json"),
]


def _name(attack: Callable[[int], Awaitable[str]]) -> str:
    return attack.__name__.strip("_")


def _reason(text: str) -> str:
    """The error's code, or the status, of a refused call."""
    found = re.search(r"error\W+([a-z_]+)", text)
    return found[1] if found else text[:60]


async def _attack(target: Target) -> dict[str, Counter[str]]:
    attacks = Attacks(target)
    with suppress(asyncio.CancelledError):
        await attacks.run()
    return attacks.counts


def main() -> None:
    os.nice(NICENESS)
    target = Target(**json.loads(sys.stdin.readline()))
    counts = asyncio.run(_attack(target))
    print(json.dumps({name: dict(count.most_common(6)) for name, count in counts.items()}))


def describe(target: Target) -> str:
    return json.dumps(asdict(target))


if __name__ == "__main__":
    main()
