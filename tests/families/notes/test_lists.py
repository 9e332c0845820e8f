"""What lists the notes and counts them: recent, namespaces, tags, statistics."""

from datetime import timedelta
from typing import Any

import pytest
from mcp import Client

from memory_mcp.app import App
from memory_mcp.clock import precise_stamp
from memory_mcp.families.notes.model import Author, Counted
from memory_mcp.server.protocol import McpServer
from tests.conftest import Clock, connected
from tests.families.notes.calls import CALLER, NOON, call, create, delete, file, get, named, read, recent, update, write

pytestmark = pytest.mark.anyio


@pytest.fixture
def era() -> str:
    """The rules are the same in both eras; other modules test each."""
    return "2026-07-28"


async def test_recent_notes_are_summaries(client: Client) -> None:
    note = await create(client, "Some text.\n\n" + "more " * 200, title="T", tags=["t"], namespace="n")

    assert await call(client, "memory_recent") == {
        "memories": [
            {
                "id": note["id"],
                "title": "T",
                "snippet": (await call(client, "memory_recent"))["memories"][0]["snippet"],
                "namespace": "n",
                "tags": note["tags"],
                "importance": 0.5,
                "updated_at": NOON,
                "last_referenced_at": None,
                "origin": "mcp",
            }
        ],
        "total": 1,
    }
    [summary] = (await call(client, "memory_recent"))["memories"]
    assert summary["snippet"].startswith("Some text. more more")
    assert summary["snippet"].endswith("…")
    assert len(summary["snippet"]) < 250


async def test_the_last_referenced_come_first_then_the_last_updated(client: Client, clock: Clock) -> None:
    notes = {}
    for name in "abcd":
        clock.now += timedelta(minutes=1)
        notes[name] = await create(client, name)
    assert await recent(client) == ["d", "c", "b", "a"]

    clock.now += timedelta(milliseconds=1)
    await update(client, notes["a"], importance=0.9)
    assert await recent(client) == ["a", "d", "c", "b"]
    for name in "bc":
        clock.now += timedelta(milliseconds=1)
        assert (await get(client, notes[name]))["last_referenced_at"].endswith("Z")
    assert await recent(client) == ["c", "b", "a", "d"]
    assert await recent(client, limit=2) == ["c", "b"]


async def test_only_memory_get_counts_as_a_reference(client: Client) -> None:
    note, other = await create(client, "text"), await create(client, "other")
    await call(client, "memory_search", query="text")
    await call(client, "memory_recent")
    await call(client, "memory_neighbors", id=note["id"])
    await call(client, "memory_link", source_id=note["id"], target_id=other["id"])
    await update(client, note, folder="f")
    for uri in (f"memory://note/{note['id']}", "memory://recent", "memory://namespace/default"):
        await read(client, uri)

    [one, two] = (await call(client, "memory_recent"))["memories"]
    assert one["last_referenced_at"] is two["last_referenced_at"] is None
    touched = await get(client, note)
    assert (touched["last_referenced_at"], touched["version"], touched["updated_at"]) == (NOON, 2, NOON)


async def test_recent_notes_of_a_namespace(client: Client) -> None:
    await create(client, "here", namespace="a")
    await create(client, "there", namespace="b")

    assert await recent(client, namespace="a") == ["here"]
    assert await recent(client, namespace="nowhere") == []
    assert set(await recent(client, namespace="")) == {"here", "there"}


async def test_recent_shows_twenty_and_no_more_than_a_hundred(client: Client, app: App) -> None:
    for number in range(101):
        write(app, f"n{number}")

    assert await recent(client) == [f"n{number}" for number in range(100, 80, -1)]
    assert len(await recent(client, limit=100)) == 100


async def test_namespaces_are_counted_with_their_last_change(client: Client, clock: Clock) -> None:
    await create(client, "a", namespace="work")
    await create(client, "b")
    clock.now += timedelta(hours=1)
    await create(client, "c", namespace="work")

    assert await call(client, "memory_list_namespaces") == {
        "namespaces": [
            {"namespace": "work", "count": 2, "updated_at": "2030-01-01T13:00:00.000Z"},
            {"namespace": "default", "count": 1, "updated_at": NOON},
        ],
        "total": 2,
    }


async def test_an_empty_memory_lists_nothing(client: Client) -> None:
    assert await call(client, "memory_list_namespaces") == {"namespaces": [], "total": 0}
    assert await call(client, "memory_list_tags") == {"tags": [], "total": 0}
    assert await call(client, "memory_recent") == {"memories": [], "total": 0}
    nothing = "Nothing fits this query. Try other words or fewer filters; memory_list_tags shows what there is."
    assert await call(client, "memory_search", query="x") == {"memories": [], "notice": nothing}
    filtered = await call(client, "memory_search", tags=["x"])
    assert filtered["notice"] == "No note matches these filters. memory_list_tags shows what there is."
    assert await call(client, "memory_stats") == {
        "total": 0,
        "by_source": {},
        "by_namespace": {},
        "top_tags": [],
        "top_clients": [],
        "avg_importance": 0.0,
    }


async def test_tags_are_counted_and_sorted_by_use(client: Client) -> None:
    await create(client, "x #inline", tags=["b", "a"])
    await create(client, "y", tags=["a"], namespace="work")

    assert await call(client, "memory_list_tags") == {
        "tags": [
            {"tag": "a", "count": 2},
            {"tag": "mcp", "count": 2},
            {"tag": "memory", "count": 2},
            {"tag": "b", "count": 1},
            {"tag": "inline", "count": 1},
            {"tag": "ns/default", "count": 1},
            {"tag": "ns/work", "count": 1},
        ],
        "total": 7,
    }
    assert [one["tag"] for one in (await call(client, "memory_list_tags", min_count=2))["tags"]] == [
        "a",
        "mcp",
        "memory",
    ]
    assert [one["tag"] for one in (await call(client, "memory_list_tags", namespace="work", min_count=1))["tags"]] == [
        "a",
        "mcp",
        "memory",
        "ns/work",
    ]


async def test_statistics_add_up(mcp_server: McpServer, app: App, era: str) -> None:
    for name, count in (("Claude Desktop", 2), ("Cursor", 1)):
        async with connected(mcp_server, mode=era, **named(name)) as client:
            for number in range(count):
                await create(client, f"{name} {number}", tags=["t"], importance=0.25 * (number + 1), namespace="work")
    write(app, "imported", author=Author("import"), importance=1.0)

    async with connected(mcp_server, mode=era) as client:
        assert await call(client, "memory_stats") == {
            "total": 4,
            "by_source": {"mcp": 3, "import": 1},
            "by_namespace": {"work": 3, "default": 1},
            "top_tags": [
                {"name": "mcp", "count": 3},
                {"name": "memory", "count": 3},
                {"name": "ns/work", "count": 3},
                {"name": "t", "count": 3},
                {"name": "claude-desktop", "count": 2},
                {"name": "cursor", "count": 1},
                {"name": "ns/default", "count": 1},
            ],
            "top_clients": [{"name": "claude-desktop", "count": 2}, {"name": "cursor", "count": 1}],
            "avg_importance": 0.5,
        }
        default = await call(client, "memory_stats", namespace="default")
        assert (default["total"], default["by_source"], default["top_clients"]) == (1, {"import": 1}, [])
        assert default["avg_importance"] == 1.0


async def test_statistics_show_the_top_ten(client: Client, app: App) -> None:
    for number in range(12):
        author = Author("mcp", f"client-{number:02}")
        for _ in range(2 if number == 11 else 1):
            write(app, "text", author=author, tags=(f"tag-{number:02}",))

    stats = await call(client, "memory_stats")
    assert len(stats["top_tags"]) == len(stats["top_clients"]) == 10
    assert stats["top_clients"][:2] == [{"name": "client-11", "count": 2}, {"name": "client-00", "count": 1}]


async def test_archived_and_expired_notes_are_not_counted(client: Client, clock: Clock) -> None:
    await create(client, "live")
    await delete(client, await create(client, "archived", importance=1))
    await create(client, "over", importance=1, expires_at="2030-01-01T12:30:00Z")
    clock.now += timedelta(hours=1)

    stats = await call(client, "memory_stats")
    assert (stats["total"], stats["avg_importance"]) == (1, 0.5)
    assert (await call(client, "memory_list_namespaces"))["namespaces"][0]["count"] == 1


@pytest.mark.parametrize("tool", ["memory_list_namespaces", "memory_list_tags", "memory_stats"])
async def test_the_size_of_a_list_is_limited(client: Client, app: App, tool: str) -> None:
    """80 kB are about 20,000 tokens: beyond that an answer is cut and says so."""
    with file(app).write() as tx:
        for number in range(1500):
            namespace = f"{number:04}" + "n" * 100
            values: dict[str, Any] = {"id": str(number), "namespace": namespace, "now": NOON, "key": b""}
            seq = tx.number(
                """
                INSERT INTO notes (id, user_id, mcp_namespace, title, has_own_title, title_key, content, content_key,
                    source, created_at, updated_at)
                VALUES (:id, 'local', :namespace, 't', 1, 't', 'text', :key, 'mcp', :now, :now) RETURNING seq
                """,
                values,
            )
            tx.all(
                """
                INSERT INTO note_tags (note_seq, tag_key, tag, origin, position)
                VALUES (:seq, :namespace, :namespace, 'user', 0)
                """,
                {"seq": seq, "namespace": namespace},
            )

    result = await client.call_tool(tool, {})
    assert isinstance(result.structured_content, dict)
    assert len(result.content[0].text.encode()) < 100_000  # type: ignore[union-attr]  # it is a text
    assert "notice" in result.structured_content


def test_totals_equal_the_counts(app: App, clock: Clock) -> None:
    """Whatever came, changed, expired and went."""
    for number in range(40):
        author = Author(client=("cursor", "zed", None)[number % 3])
        tags = (f"t{number % 15}", f"u{number // 10}")
        end = precise_stamp(clock.now + timedelta(seconds=60 * number)) if number % 2 else None
        note = write(app, f"note {number}", author=author, namespace=f"n{number % 4}", tags=tags, expires_at=end)
        if number % 7 == 0:
            app.notes.writer.delete(CALLER, note.id, soft=number % 2 == 0)
        clock.now += timedelta(seconds=30)
        stats, totals = app.notes.reader.stats(CALLER, None), app.notes.reader.totals(CALLER)
        assert (totals.notes, totals.namespaces) == (stats.total, len(stats.by_namespace))
        assert totals.top_clients == stats.top_clients
        every = app.notes.reader.tags(CALLER, None, 1).tags
        own = [Counted(tag.tag, tag.count) for tag in every if tag.tag[0] in "tu"]  # the others are of the server
        assert totals.top_tags == own[:10]
        assert totals.unarchived >= totals.notes
        assert (totals.embedded, totals.waiting) == (0, totals.unarchived)
