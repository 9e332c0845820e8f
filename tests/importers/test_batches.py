"""What an import holds in memory at once is limited by its size, not only by its number."""

import json
from pathlib import Path

import pytest

from memory_mcp.families.graph.model import NewEntity
from memory_mcp.importers import bounds, found_items, operations
from memory_mcp.importers.model import FoundNote, ImportProblem


def test_large_items_come_in_small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations, "MAX_BATCH_CHARS", 1000)
    small, large = (bounds.note("here", "x" * size) for size in (10, 600))
    batches = list(operations._batches([small, small, large, large, small, large], max_items=3))
    assert batches == [[small, small, large], [large, small, large]]
    assert list(operations._batches([large, large, large], max_items=3)) == [[large, large], [large]]
    entity = NewEntity("Ann", "person", ("xy",) * 30)  # short texts take memory, too
    assert list(operations._batches([entity] * 3, max_items=3)) == [[entity], [entity], [entity]]


def test_metadata_with_many_lists_is_refused() -> None:
    kept = bounds.note("here", "x", metadata={"a": [[]] * (bounds.MAX_METADATA_CONTAINERS - 2)})
    refused = bounds.note("here", "x", metadata={"a": [[]] * (bounds.MAX_METADATA_CONTAINERS - 1)})
    assert isinstance(kept, FoundNote)
    assert refused == ImportProblem("here", "Its metadata has over 10,000 lists and objects.")


def test_an_item_that_is_too_long_becomes_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(found_items, "MAX_ITEM_CHARS", 200)
    entities = [NewEntity(name, "person", ("x",) * size) for name, size in (("Ann", 1), ("Eve", 100))]
    file = tmp_path / "found.jsonl"
    assert found_items.write(file, entities) == 2
    found = list(found_items.read(file, lambda _: None))
    assert found == [entities[0], ImportProblem("Eve", "It is too long to be held in memory. Split it.")]
    assert all(len(json.dumps(line)) < 400 for line in file.read_text(encoding="utf-8").splitlines())
