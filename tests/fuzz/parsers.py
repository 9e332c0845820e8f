"""Every parser of texts that others write, as a function of bytes that fails if the parser breaks a promise.

A parser accepts its input or refuses it with an AppError; any other exception is a bug, and so is a broken property:
what is written back reads as it was, merging does not depend on the order, a query that was accepted runs.
"""

import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import apsw
from mcp import types
from pydantic import ValidationError

from memory_mcp.clients import jsonc, toml
from memory_mcp.errors import AppError
from memory_mcp.families.notes import markdown
from memory_mcp.families.portals import address
from memory_mcp.families.registry import FAMILIES
from memory_mcp.families.stores import frontmatter, yaml_text
from memory_mcp.importers import basic_memory, chatgpt, claude, mcp_memory_service, mem0, server_memory
from memory_mcp.server import arguments
from memory_mcp.services.search import fts_query
from memory_mcp.services.sync import records
from memory_mcp.text.time_spans import TimeReader

MAX_FOUND = 1000  # memories of one imported file
NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


@dataclass(frozen=True)
class Parser:
    name: str
    check: Callable[[bytes], None]
    seeds: tuple[bytes, ...]


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def check_front_matter(data: bytes) -> None:
    text = _text(data)
    file = frontmatter.parse(text)
    if not file.is_broken:
        assert file.opening + file.front + file.closing + file.body == text.removeprefix(
            "" if file.opening else "\ufeff"
        )
    assert len(file.summary) <= frontmatter.MAX_SUMMARY_CHARS
    before = file.metadata
    with suppress(AppError):
        changed = frontmatter.parse(frontmatter.rewritten(file, {"tags": ["one", "- two: [#"]}, None))
        assert changed.metadata.tags == ["one", "- two: [#"]
        assert changed.content.rstrip("\r\n") == file.content.rstrip("\r\n") or not file.opening
        assert changed.metadata.source == before.source
    with suppress(yaml_text.NotYaml):
        yaml_text.load(text)


def check_markdown(data: bytes) -> None:
    text = _text(data)
    found = markdown.marks(text)
    assert len(found.tags) <= markdown.MAX_TAGS
    assert all(0 < len(tag) <= markdown.MAX_TAG_CHARS for tag in found.tags)
    assert all(0 < len(link) <= markdown.MAX_TITLE_CHARS and "\n" not in link for link in found.links)
    assert len(markdown.first_line(text)) <= markdown.MAX_TITLE_CHARS


@cache
def _index() -> apsw.Connection:
    connection = apsw.Connection(":memory:")
    connection.execute("CREATE VIRTUAL TABLE words USING fts5(content, tags)")
    connection.execute("INSERT INTO words VALUES ('a fox runs over the hill', 'animal')")
    return connection


def check_fts_query(data: bytes) -> None:
    """What `syntax` accepts and what `terms` makes of the rest never fail in FTS5."""
    text = _text(data)
    expressions = [fts_query.syntax(text, ("content", "tags")), fts_query.any_of(fts_query.terms(text)[:64])]
    for expression in filter(None, expressions):
        _index().execute("SELECT bm25(words) FROM words WHERE words MATCH ?", (expression,)).fetchall()
    fts_query.without_syntax(text, ("content", "tags"))
    fts_query.word_parts(fts_query.spaced(text))


def check_address(data: bytes) -> None:
    text = _text(data)
    with suppress(AppError):
        found = address.parse(text)
        assert address.parse(found.portal_uri) == address.Address(found.namespace, found.portal)
        address.page(text)
    name = address.column_name(text)
    assert 0 < len(name) <= address.MAX_COLUMN_CHARS
    assert address.column_name(name) == name


def check_sync_record(data: bytes) -> None:
    """Two records, one per line: merging them in any order gives the same, and merging again changes nothing."""
    one, _, other = data.partition(b"\n")
    with suppress(AppError, ValueError, RecursionError):
        first = records.parse(json.loads(one))
        assert records.parse(json.loads(json.dumps(records.as_json(first)))) == first
        with suppress(AppError):
            records.check_values(first)
        assert records.merge(first, first) in (first, first.location_only)
        fields = json.loads(other)
        second = records.parse({**fields, "id": first.id} if isinstance(fields, dict) else fields)
        merged = records.merge(first, second)
        assert merged == records.merge(second, first)
        assert merged == records.merge(merged, second)


@cache
def _tools() -> list[Any]:
    return [tool for family in FAMILIES.values() for tool in family.tools.values()]


def check_arguments(data: bytes) -> None:
    """A JSON-RPC message with a call of any tool: `{"name": …, "arguments": …}`."""
    try:
        message = types.jsonrpc_message_adapter.validate_json(data, by_name=False)
    except ValidationError:
        return
    params = getattr(message, "params", None) or {}
    given, name = params.get("arguments"), params.get("name")
    for tool in [one for one in _tools() if one.name == name] or _tools()[:3]:
        with suppress(AppError):
            parsed = arguments.parse(tool, given if isinstance(given, dict) else {})
            json.dumps(parsed.model_dump(mode="json")).encode()


def check_time(data: bytes) -> None:
    after, _, before = _text(data).partition("\n")
    with suppress(AppError):
        span = TimeReader(lambda: NOON, "UTC").span(after, before or None)
        assert span.after is not None or span.before is not None


def check_client_settings(data: bytes) -> None:
    """An entry that is added to settings is there, and removing it leaves all else as it was."""
    text = _text(data)
    for editor, refused in ((jsonc, jsonc.MalformedFile), (toml, ValueError)):
        try:
            before = editor.value(text)
            added = editor.put(text, ("mcpServers", "memory"), {"command": "x"})
        except (refused, AppError, RecursionError):
            continue
        assert editor.value(added)["mcpServers"]["memory"] == {"command": "x"}
        after = editor.value(editor.remove(added, ("mcpServers", "memory")))
        kept = {key: value for key, value in before.items() if key != "mcpServers"}
        assert repr({key: value for key, value in after.items() if key != "mcpServers"}) == repr(kept)


def _importer(read: Callable[[Path], Iterator[Any]], name: str) -> Callable[[bytes], None]:
    def check(data: bytes) -> None:
        with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
            path = Path(folder) / name
            path.write_bytes(data)
            with suppress(AppError):
                for found in islice(read(path if name != "note.md" else path.parent), MAX_FOUND):
                    assert found is not None

    return check


@cache
def _checks() -> Any:
    """The SQL policy with the engine's own parser and lists, in this process."""
    import chdb

    from memory_mcp.engines.chdb.connections import ChdbConnection
    from memory_mcp.engines.chdb.query_checks import Inspector, QueryChecks

    connection = ChdbConnection(lambda: chdb.connect(":memory:"))
    connection.run("CREATE DATABASE IF NOT EXISTS portal", {})
    connection.run("CREATE TABLE portal.mine (n Int64, word String) ENGINE = Memory", {})
    return QueryChecks(Inspector(connection))


def check_sql(data: bytes) -> None:
    """A query that the policy accepts is accepted again in the form in which it runs, and means the same then."""
    from memory_mcp.engines.chdb.sql_policy import QueryRefused, QueryTooLarge

    checks = _checks()
    checks.clear()
    with suppress(QueryRefused, QueryTooLarge):
        checked = checks.check(_text(data), {})
        assert checks.check(checked.text, {}).text == checked.text


def _record(**fields: Any) -> bytes:
    return json.dumps({"id": "n1", **fields}).encode()


def _call(name: str, **given: Any) -> bytes:
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": given}}
    return json.dumps(message).encode()


_STAMP = "001767225600000:00000:a"
_ITEM = {"text": "x", "memory": "likes tea", "created_at": "2026-01-01T00:00:00Z"}
PARSERS = {
    parser.name: parser
    for parser in (
        Parser(
            "front_matter",
            check_front_matter,
            (
                b"---\ntags: [a, b]\ncreated: 2026-01-01 # when\n---\n\nbody\n",
                b"\xef\xbb\xbf---\r\nsummary: >-\r\n  two\r\n  lines\r\ntags:\r\n- x\r\n---\r\nbody",
                b"---\na: &x [1, *x]\n? b\n: |\n  c\n---\n",
            ),
        ),
        Parser(
            "markdown", check_markdown, (b"# T\n\n[[One|two]] #tag/a `#no` [x](#y) <http://a#b>\n```\n[[z]]\n```\n",)
        ),
        Parser(
            "fts_query",
            check_fts_query,
            (b'"a b" AND (fox* OR ^hill) NOT tags:x', b"NEAR(a b, 3)", "我喜欢 camelCase's".encode()),
        ),
        Parser("address", check_address, (b"mem://a/b/t?since=2026-01-01&limit=5&order=-n", b"mem://a%2f/b#x")),
        Parser(
            "sync_record",
            check_sync_record,
            (
                _record(registers={"content": [_STAMP, "x"], "tag/a": [_STAMP, ["a", "user"]]})
                + b"\n"
                + _record(registers={"content": [_STAMP, "y"], "tag/a": [_STAMP]}, importance=0.5),
                _record(**{records.DELETION: _STAMP}, registers={"namespace": [_STAMP, "default"]}) + b"\n" + _record(),
            ),
        ),
        Parser(
            "arguments",
            check_arguments,
            (
                _call("memory_create", content="x", tags=["a"], metadata={"a": {"b": 1}}, importance="0.5"),
                _call("commit_memory", scope="vault", key="k", content="c", tags="a, b"),
                _call("create_entities", project="p", entities=[{"name": "n", "entity_type": "t"}]),
                _call("portal_write", portalUri="mem://a/b", table="t", data=[{"n": 1}]),
                _call("recall_memories", query="x", after="yesterday", limit="3"),
            ),
        ),
        Parser(
            "time", check_time, (b"last 3 hours\ntomorrow", b"May 3 2026 Europe/Berlin", b"2026-04-27T14:00:00+02:00")
        ),
        Parser(
            "client_settings",
            check_client_settings,
            (
                b'{ // c\n "mcpServers": {"a": {"command": "b",},},\n}',
                b'[mcpServers.a]\ncommand = "b" # c\n[x]\ny = {z = 1}\n',
            ),
        ),
        Parser(
            "sql",
            check_sql,
            (
                b"SELECT n, count() FROM mine WHERE word LIKE {p:String} GROUP BY n",
                b"WITH x AS (SELECT 1) SELECT * FROM x JOIN mine ON 1",
                b"SELECT * FROM url('http://127.0.0.1')",
            ),
        ),
        Parser(
            "mem0",
            _importer(mem0.read, "mem0.json"),
            (json.dumps({"results": [_ITEM]}).encode(), json.dumps([_ITEM]).encode()),
        ),
        Parser("mem0_lines", _importer(mem0.read, "memories.jsonl"), (json.dumps(_ITEM).encode() + b"\n{}\n",)),
        Parser(
            "chatgpt",
            _importer(chatgpt.read, "conversations.json"),
            (
                json.dumps(
                    [
                        {
                            "title": "t",
                            "create_time": 1.5,
                            "mapping": {"a": {"message": {"recipient": "bio", "content": {"parts": ["x"]}}}},
                        }
                    ]
                ).encode(),
            ),
        ),
        Parser(
            "claude",
            _importer(claude.read, "memories.json"),
            (
                json.dumps(
                    [{"conversations_memory": "**A**\n\nb", "account_uuid": "u", "project_memories": {"p": "x"}}]
                ).encode(),
            ),
        ),
        Parser("text_list", _importer(chatgpt.read, "memories.txt"), (b"[2026-01-01] - likes tea\n- x\n",)),
        Parser(
            "server_memory",
            _importer(server_memory.read, "memory.jsonl"),
            (
                b'{"type":"entity","name":"A","entityType":"t","observations":["x"]}\n{"type":"relation","from":"A","to":"A","relationType":"r"}\n',
            ),
        ),
        Parser(
            "basic_memory",
            _importer(basic_memory.read, "note.md"),
            (b"---\ntitle: T\ntype: note\n---\n# T\n- [fact] x #a\n- links [[Y]]\n",),
        ),
        Parser("mcp_memory_service", _importer(mcp_memory_service.read, "sqlite_vec.db"), (b"SQLite format 3\0",)),
    )
}
