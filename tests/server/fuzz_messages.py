"""Messages that no client should send, made from those that clients do send. The same seed makes the same messages."""

import json
import random
import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.wire import HELLO, MODERN, modern_meta

TEXTS = (
    "",
    " ",
    "a",
    "\0",
    "a\nb",
    "\ud800",
    "ok \udfff",
    "e\u0301",
    "\u202eabc",
    "🦘" * 40,
    "x" * 5000,
    "9" * 400,
    "../../../../etc/passwd",
    "C:\\x\\..\\y",
    "%00%ff%2e%2e",
    "' OR 1=1 --",
    '"',
    'NEAR("a" b',
    "a* AND (",
    "{x:String}",
    "[[a]] #b",
    "---\na: [\n---\n",
    "null",
    "-1",
    "2020-13-45",
    "2020-01-01",
    "0001-01-01T00:00:00+14:00",
    "9999-12-31T23:59:59-14:00",
    "select 1",
    "select * from t",
    "select throwIf(1)",
    "mem://fuzz/one",
    "mem://fuzz/one/t?limit=x",
    "mem://../..",
    "memory://vault",
    "memory://vault?offset=-1",
    "memory://vault/%ff",
    "memory://note/x",
    "memory://session/x",
    "bm90ZXMvLTE=",
    "bm90ZXMveA==",
    "vault",
    "t.csv",
    "fuzz",
)
NUMBERS = (0, -1, 1, 3, 2**31, 2**53, 2**63, -(2**63), 2**64, 10**300, 10**4000, 0.1, -0.0, 1e308, 5e-324)
NOT_NUMBERS = (float("nan"), float("inf"), float("-inf"))
KEYS = ("id", "method", "params", "name", "arguments", "uri", "_meta", "jsonrpc", "cursor", "", "__proto__", "\ud800")
VERSIONS = (MODERN, "2025-11-25", "2025-06-18", "2024-11-05", "2999-01-01", "", "x", "ü")

Message = dict[str, Any]


@dataclass(frozen=True)
class Sent:
    """One HTTP request."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class Fuzz:
    """A stream of bad messages."""

    def __init__(self, seed: int, tools: Sequence[Mapping[str, Any]], *, modern: bool) -> None:
        self._random = random.Random(seed)
        self._tools = tools
        self._modern = modern

    # Values

    def value(self, depth: int = 0) -> Any:
        """Any JSON, and some that is none."""
        r = self._random
        kind = r.randrange(8 if depth < 4 else 5)
        if kind == 0:
            return r.choice((None, True, False, [], {}))
        if kind in (1, 2):
            return r.choice(TEXTS)
        if kind == 3:
            return r.choice(NUMBERS)
        if kind == 4:
            return r.choice(NOT_NUMBERS) if r.random() < 0.3 else r.choice(NUMBERS)
        if kind == 5:
            return [self.value(depth + 1) for _ in range(r.randrange(4))]
        return {r.choice((*KEYS, *TEXTS[:12])): self.value(depth + 1) for _ in range(r.randrange(4))}

    def deep(self) -> Any:
        """Nested far beyond what anybody needs."""
        nested: Any = self.value(4)
        for _ in range(self._random.choice((50, 99, 101, 150, 400))):
            nested = [nested] if self._random.random() < 0.5 else {"a": nested}
        return nested

    def fitting(self, schema: Mapping[str, Any]) -> Any:
        """What a tool's own schema allows, more or less."""
        r = self._random
        if "enum" in schema:
            return r.choice(schema["enum"])
        kind = schema.get("type")
        if isinstance(kind, list):
            kind = r.choice(kind)
        if kind == "object":
            fields = schema.get("properties", {})
            required = schema.get("required", ())
            chosen = {name: part for name, part in fields.items() if name in required or r.random() < 0.3}
            return {name: self._field(name, part) for name, part in chosen.items()} or {"a": r.choice(NUMBERS[:4])}
        if kind == "array":
            return [self.fitting(schema.get("items", {})) for _ in range(r.randrange(1, 4))]
        if kind == "integer":
            return r.randint(schema.get("minimum", 0), min(schema.get("maximum", 100), 100))
        if kind == "number":
            return r.random()
        if kind == "boolean":
            return r.random() < 0.5
        if kind == "string":
            return self._text(schema.get("maxLength", 100))
        return self.value()

    def _field(self, name: str, schema: Mapping[str, Any]) -> Any:
        """Names that exist make calls reach further than names that do not."""
        common = {"portalUri": "mem://fuzz/one", "store": "fuzz", "project": "fuzz", "sql": "select 1", "table": "t"}
        if name in common and self._random.random() < 0.8:
            return common[name]
        return self.fitting(schema)

    def _text(self, max_chars: int) -> str:
        if self._random.random() < 0.5:
            return self._random.choice(TEXTS)[:max_chars]
        return "".join(self._random.choices(string.ascii_lowercase, k=self._random.randrange(1, 9)))

    # Messages

    def request(self) -> Message:
        """A request as a client sends it."""
        method, params = self._random.choice(self._requests())()
        if self._modern:
            params = params | {"_meta": modern_meta()}
        return {"jsonrpc": "2.0", "id": self._random.randrange(1, 10**6), "method": method, "params": params}

    def _requests(self) -> Sequence[Callable[[], tuple[str, Message]]]:
        def text() -> str:
            return self._random.choice(TEXTS)

        return (
            *([self._tool_call] * 12),
            lambda: ("resources/read", {"uri": text()}),
            lambda: ("resources/subscribe", {"uri": text()}),
            lambda: ("resources/unsubscribe", {"uri": text()}),
            lambda: ("resources/list", {"cursor": text()}),
            lambda: (self._random.choice(("tools/list", "prompts/list", "resources/templates/list", "ping")), {}),
            lambda: ("prompts/get", {"name": "recall", "arguments": {"topic": text()}}),
            lambda: ("completion/complete", self._completion()),
            lambda: ("initialize", dict(HELLO)),
            lambda: ("subscriptions/listen", {"notifications": {"resourceSubscriptions": [text()]}}),
            lambda: (self._random.choice(("server/discover", "logging/setLevel", "tasks/get", text())), {}),
        )

    def _tool_call(self) -> tuple[str, Message]:
        tool = self._random.choice(self._tools)
        arguments = self.fitting(tool["inputSchema"])
        if self._random.random() < 0.5:
            arguments = self.mutated(arguments)
        return "tools/call", {"name": tool["name"], "arguments": arguments}

    def _completion(self) -> Message:
        ref = self._random.choice(({"type": "ref/prompt", "name": "recall"}, {"type": "ref/resource", "uri": "x"}))
        return {"ref": ref, "argument": {"name": self._random.choice(("topic", "ns", "key")), "value": self._text(50)}}

    def mutated(self, node: Any) -> Any:
        """With something missing, of another kind, too much or too deep, somewhere inside."""
        r = self._random
        if isinstance(node, dict) and node and r.random() < 0.85:
            name = r.choice(list(node))
            what = r.random()
            if what < 0.15:
                return {key: value for key, value in node.items() if key != name}
            if what < 0.3:
                return node | {r.choice((*KEYS, "extra")): self.value()}
            return node | {name: self.mutated(node[name])}
        if isinstance(node, list) and node and r.random() < 0.7:
            place = r.randrange(len(node))
            return [*node[:place], self.mutated(node[place]), *node[place + 1 :]]
        return self.deep() if r.random() < 0.05 else self.value()

    def body(self) -> bytes:
        """A message as bytes: sound, wrong in itself, or broken on the way."""
        r = self._random
        message = self.request()
        if r.random() < 0.5:
            message = self.mutated(message)
        whole = json.dumps(message).encode()
        how = r.random()
        if how < 0.75:
            return whole
        return r.choice((self._truncated, self._flipped, self._doubled, self._batch, self._wrapped, self._noise))(whole)

    def _truncated(self, whole: bytes) -> bytes:
        return whole[: self._random.randrange(len(whole))]

    def _flipped(self, whole: bytes) -> bytes:
        changed = bytearray(whole)
        for _ in range(self._random.randrange(1, 4)):
            changed[self._random.randrange(len(changed))] = self._random.randrange(256)
        return bytes(changed)

    def _doubled(self, whole: bytes) -> bytes:
        """With a key twice."""
        again = json.dumps({self._random.choice(KEYS[:-1]): self.value(3)})[1:-1].encode()
        return b"{" + again + b"," + whole[1:] if whole[:1] == b"{" else whole

    def _batch(self, whole: bytes) -> bytes:
        return b"[" + b",".join([whole] * self._random.randrange(3)) + b"]"

    def _wrapped(self, whole: bytes) -> bytes:
        r = self._random
        depth = r.choice((1000, 20_000))
        return r.choice(
            (
                b"\xef\xbb\xbf" + whole,
                whole.decode().encode("utf-16"),
                whole + b"\n" + whole,
                b"[" * depth,
                b'{"a":' * depth,
                b'{"jsonrpc":"2.0","id":1,"method":"ping","params":' + b"[" * depth + b"]" * depth + b"}",
                whole.replace(b": ", b":" + b" " * 1000, 1),
                b'{"jsonrpc":"2.0","id":' + b"9" * 5000 + b',"method":"ping"}',
                whole.replace(b"1" + b"0" * 300, b"1" + b"0" * 5000),
                b'{"jsonrpc":"2.0","id":1e999,"method":"ping"}',
                b'{"jsonrpc":"2.0","id":1,"method":"\xff\xfe"}',
                b'{"jsonrpc":"2.0","id":1,"result":{}}',
                b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":[]}}',
            )
        )

    def _noise(self, whole: bytes) -> bytes:
        return self._random.randbytes(self._random.choice((0, 1, 10, 200)))

    # Over HTTP

    def sent(self, headers: Mapping[str, str]) -> Sent:
        """A request with these headers, or some like them."""
        r = self._random
        body = self.body()
        given = {"Content-Type": "application/json", **headers, **(_modern_headers(body) if self._modern else {})}
        if r.random() < 0.2:
            given |= self._odd_header(given)
        if r.random() < 0.05:
            given.pop(r.choice(list(given)))
        if r.random() < 0.9:
            return Sent("POST", "/mcp", given, body)
        method = r.choice(("GET", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD", "TRACE", "FUZZ", "POST"))
        path = r.choice(("/mcp", "/mcp/", "/mcp/sse", "/mcp/messages", "/mcp/x", "/healthz", "/", "/%00", "/..%2f"))
        query = r.choice(("", "", "?session_id=x", "?session_id=" + "0" * 32, "?%ff=%00"))
        return Sent(method, path + query, given, body)

    def _odd_header(self, given: Mapping[str, str]) -> dict[str, str]:
        r = self._random
        name, values = r.choice(
            (
                ("Content-Type", ("text/plain", "application/json; charset=utf-16", "", "x" * 300, "application/xml")),
                ("Accept", ("", "*/*", "text/html", "application/json", "text/event-stream", ";;q=x")),
                ("MCP-Protocol-Version", VERSIONS),
                ("Mcp-Method", ("tools/call", "x", "", "=?utf-8?b?!!?=", "a" * 5000)),
                ("Mcp-Name", ("x", "", "=?base64?x?=", "=?base64?/w==?=", "%ff")),
                ("mcp-session-id", ("x", "", "0" * 32, "\xff", "../x")),
                ("Last-Event-ID", ("x", "-1", "0")),
                ("Authorization", ("", "Bearer", "Bearer x", "Basic eA==", "Bearer mmcp_" + "a" * 12 + "_" + "b" * 43)),
                ("Host", ("evil.example", "", "127.0.0.1:x", "[::1", "localhost")),
                ("Origin", ("null", "http://evil.example", "http://[", "http://localhost")),
                ("Content-Encoding", ("gzip", "x")),
                ("Expect", ("100-continue", "x")),
            )
        )
        spelled = next((key for key in given if key.lower() == name.lower()), name)
        return {spelled: r.choice(values)}

    def raw(self) -> bytes:
        """Bytes on the socket that are hardly HTTP."""
        r = self._random
        return r.choice(
            (
                b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
                b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\nContent-Length: 2\r\n\r\n{}",
                b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
                b"POST /mcp HTTP/9.9\r\n\r\n",
                b"GET /mcp\r\n\r\n",
                b"GET http://[ HTTP/1.1\r\nHost: localhost\r\n\r\n",
                b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
                b"GET /mcp HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
                b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
                b"\x16\x03\x01\x02\x00\x01",
                r.randbytes(300),
            )
        )


def _modern_headers(body: bytes) -> dict[str, str]:
    """The headers that go with a message, as far as it can be read and a header can say it."""
    try:
        message = json.loads(body)
        method, params = message["method"], message["params"]
        name = params.get("name") or params.get("uri")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {"MCP-Protocol-Version": MODERN}
    headers = {"Mcp-Method": method, "Mcp-Name": name}
    fit = {
        key: text for key, text in headers.items() if isinstance(text, str) and text.isascii() and text.isprintable()
    }
    return {"MCP-Protocol-Version": MODERN, **fit}
