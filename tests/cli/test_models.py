import json
import sys
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest

from tests.cli.test_memories import left_with
from tests.services.embedding.fake_service import FakeService, running_service

NOTES = 40


@pytest.fixture
def service() -> Iterator[FakeService]:
    with running_service() as service:
        yield service


@pytest.fixture
def printed(
    tmp_path: Path, service: FakeService, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> str:
    """What an import of notes printed. None of them has a vector yet."""
    for name, value in (
        ("DATA_DIR", str(tmp_path / "data")),
        ("EMBEDDER", "openai"),
        ("OPENAI_BASE_URL", f"{service.url}/v1"),
        ("OPENAI_API_KEY", "key"),
    ):
        monkeypatch.setenv(f"MEMORY_MCP_{name}", value)
    monkeypatch.setattr(sys, "stdin", StringIO(""))
    export = tmp_path / "mem0.json"
    export.write_text(json.dumps({"results": [{"id": str(n), "memory": f"Memory {n}"} for n in range(NOTES)]}))
    assert not left_with("import", "mem0", str(export))
    return capsys.readouterr().err


def test_an_import_says_what_waits_for_vectors(printed: str) -> None:
    assert f"{NOTES} notes have no vector yet" in printed
    assert "`memory-mcp models embed`" in printed


def test_all_vectors_are_computed(printed: str, service: FakeService, capsys: pytest.CaptureFixture[str]) -> None:
    assert not left_with("models", "embed", "--json")
    assert json.loads(capsys.readouterr().out) == {"embedded": NOTES}
    assert all(service.texts()[f"Memory {number}"] for number in range(NOTES))
    assert not left_with("models", "embed")
    assert "Vectors of 0 notes were computed" in capsys.readouterr().out


def test_a_service_that_does_not_answer_is_reported(
    printed: str, service: FakeService, capsys: pytest.CaptureFixture[str]
) -> None:
    service.stop()
    assert left_with("models", "embed") == 1
    assert "The embedding service cannot be reached." in capsys.readouterr().err
