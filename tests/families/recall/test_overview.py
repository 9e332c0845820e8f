"""recall_overview: everything a caller has, in few words."""

import json
import string
from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import pytest
from mcp import Client
from pydantic import TypeAdapter

from memory_mcp.app import App
from memory_mcp.caller import ALL_SCOPES, LOCAL_USER, Caller
from memory_mcp.engines.chdb import process
from memory_mcp.families.family import OpenFamily
from memory_mcp.families.notes.model import Author, NewNote
from memory_mcp.families.recall import overview
from memory_mcp.families.recall.model import Overview
from memory_mcp.families.references import GroupSize
from memory_mcp.families.registry import FAMILIES
from tests.conftest import ERAS
from tests.exhaustive import sample
from tests.families.notes.calls import call
from tests.families.recall.calls import PORTAL, write_everywhere

pytestmark = pytest.mark.anyio

ME = Caller(LOCAL_USER, ALL_SCOPES, frozenset(FAMILIES))
NOON = "2030-01-01T12:00:00Z"
MAX_BYTES = 3_100  # under 1,500 tokens of o200k_base, counted for names of many kinds in 2026


@pytest.fixture(params=ERAS)
def era(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def families(sizes: Mapping[str, list[GroupSize]]) -> dict[str, OpenFamily[Any]]:
    def sized(found: list[GroupSize]) -> Any:
        return lambda operations, caller: found

    return {name: OpenFamily(replace(FAMILIES[name], sizes=sized(found)), None) for name, found in sizes.items()}


async def test_every_family_is_counted_with_its_groups(client: Client) -> None:
    await write_everywhere(client, "The savings are in the blue teapot.", portals=True)
    await call(client, "memory_create", content="Another", namespace="work")
    found = await call(client, "recall_overview")
    assert set(found) == {"families"}
    assert {one["family"]: (one["count"], [group["name"] for group in one["groups"]]) for one in found["families"]} == {
        "vault": (1, []),
        "notes": (2, ["work", "default"]),
        "stores": (1, ["diary"]),
        "graph": (1, ["house"]),
        "portals": (1, [PORTAL]),
    }
    for one in found["families"]:
        assert one["last_write"].endswith("Z")
        for group in one["groups"]:
            assert (group["count"], group["last_write"][:2]) == (1, "20")
    [portal] = found["families"][-1]["groups"]
    assert portal["tables"] == {"turns": 1}


async def test_nothing_is_an_overview_too(client: Client) -> None:
    found = await call(client, "recall_overview")
    assert found["families"] == [
        {"family": name, "count": 0, "last_write": None, "groups": []} for name in FAMILIES if name != "recall"
    ]


async def test_the_rest_is_found_with_the_reference_in_the_notice(client: Client, app: App) -> None:
    for number in range(100):
        app.notes.writer.create(ME, Author(), NewNote("x", namespace=f"n{number}"))
    found = await call(client, "recall_overview")
    [notes] = [one for one in found["families"] if one["family"] == "notes"]
    assert notes["count"] == 100
    left = 100 - len(notes["groups"])
    assert found["notice"] == f"{left} more of notes: recall_open with ref memory://namespace/ lists all."
    listed = (await call(client, "recall_open", ref="memory://namespace/"))["content"]
    assert all(f"- memory://namespace/n{number}: 1 (" in listed for number in range(100))


def test_the_last_written_come_first_and_each_family_has_some() -> None:
    def groups(prefix: str, day: int) -> list[GroupSize]:
        return [GroupSize(f"{prefix}{n}", 1, f"20{day}-01-01T12:{n:02}:00Z") for n in range(50)]

    found = overview.describe(families({"notes": groups("new", 30), "graph": groups("old", 20)}), ME)
    notes, graph = found.families
    assert [group.name for group in notes.groups[:2]] == ["new49", "new48"]
    assert [group.name for group in graph.groups] == ["old49", "old48", "old47"]
    assert len(notes.groups) > 10


ALPHABETS = {
    "words": string.ascii_lowercase,
    "signs": string.punctuation,
    "controls": "".join(map(chr, range(1, 32))),
    "hanzi": "".join(map(chr, range(0x4E00, 0x4F00))),
    "emoji": "".join(map(chr, range(0x1F300, 0x1F400))),
}


@pytest.mark.parametrize(("kind", "length"), sample(list(product(ALPHABETS, [1, 20, 128, 512])), every=3))
def test_it_is_short_whatever_there_is(kind: str, length: int) -> None:
    chance = Random(length)

    def name() -> str:
        return "".join(chance.choices(ALPHABETS[kind], k=length)) + str(chance.randrange(10**6))

    sizes = [GroupSize(name(), 10**9, NOON, tables={name(): 10**6 for _ in range(10)}) for _ in range(1_000)]
    found = overview.describe(families(dict.fromkeys(("notes", "stores", "graph", "portals"), sizes)), ME)
    assert len(TypeAdapter(Overview).dump_json(found)) < MAX_BYTES
    assert sum(one.count for one in found.families) == 4 * 1_000 * 10**9


def test_a_family_that_cannot_be_read_does_not_hide_the_others(app: App, tmp_path: Path) -> None:
    app.notes.writer.create(ME, Author(), NewNote("x"))
    (tmp_path / "stores.yaml").write_text("- [", encoding="utf-8")
    found = app.recall.overview(ME)
    assert [one.family for one in found.families] == ["vault", "notes", "graph", "portals"]
    assert "stores cannot be read: stores.yaml" in str(found.notice)


def test_only_visible_memories_are_counted(app: App) -> None:
    for namespace in ("own", "other"):
        app.notes.writer.create(ME, Author(), NewNote("x", namespace=namespace))
    confined = replace(ME, namespace="own", is_confined=True, families=frozenset({"notes", "portals", "recall"}))
    found = app.recall.overview(confined)
    assert [(one.family, one.count, [group.name for group in one.groups]) for one in found.families] == [
        ("notes", 1, ["own"]),
        ("portals", 0, []),
    ]


def test_no_engine_starts_for_it(app: App, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Portals are described in their folders; one without a description is listed without a count."""
    for number in range(100):
        folder = tmp_path / "portals" / "many" / f"p{number}"
        folder.mkdir(parents=True)
        table = {"name": "t", "rows": 7, "bytes": 1, "columns": []}
        (folder / "portal.json").write_text(json.dumps({"tables": [table] if number else None}), encoding="utf-8")

    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("an engine starts")

    monkeypatch.setattr(process, "start_module", refuse)
    [portals] = [one for one in app.recall.overview(ME).families if one.family == "portals"]
    assert portals.count == 99 * 7
