"""The vector of a note together with the note before it: made from the vectors of both."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import numpy as np
import pytest

from memory_mcp.services.search.vectors import Floats, unit, unpack
from tests.events import eventually
from tests.services.embedding.fake_service import FakeService, running_service
from tests.services.embedding.servers import NotesFile, Server, server, shorten_timeouts


@pytest.fixture
def service() -> Iterator[FakeService]:
    with running_service() as service:
        yield service


@pytest.fixture
def notes(tmp_path: Path, service: FakeService, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    shorten_timeouts(monkeypatch)
    options: dict[str, Any] = {"embedder": "ollama", "ollama_host": service.url, "embed_model": "tiny"}
    with server(tmp_path, **options) as running:
        yield running


def vectors(tmp_path: Path) -> dict[tuple[str, int], Floats]:
    """By the content of their note and their part."""
    sql = "SELECT content, part, vector FROM note_vectors JOIN notes ON seq = note_seq"
    with closing(apsw.Connection(str(tmp_path / "notes.db"))) as db:
        return {(content, part): unpack(vector) for content, part, vector in db.execute(sql)}


def context_of(tmp_path: Path, later: str, earlier: str) -> bool:
    """Whether the vector with context is that of these two notes."""
    found = vectors(tmp_path)
    together = unit(found[later, 0] + found[earlier, 0])
    return np.allclose(found[later, -1], together, atol=1e-6)


def test_a_note_after_another_gets_one_more_vector_without_being_embedded_twice(
    tmp_path: Path, service: FakeService, notes: Server
) -> None:
    notes.create("Where does the coffee come from?")
    notes.create("From Kenya, they say")
    eventually(NotesFile(tmp_path).is_done)
    assert context_of(tmp_path, "From Kenya, they say", "Where does the coffee come from?")
    assert ("Where does the coffee come from?", -1) not in vectors(tmp_path)
    embedded = [text for request in service.requests for text in request.texts]
    assert embedded.count("From Kenya, they say") == 1
    assert not [text for text in embedded if "Kenya" in text and "Where" in text]


def test_it_follows_changes_of_the_note_before(tmp_path: Path, service: FakeService, notes: Server) -> None:
    first = notes.create("Where does the coffee come from?")
    second = notes.create("Let me look it up")
    notes.create("From Kenya, they say")
    eventually(NotesFile(tmp_path).is_done)
    requests = len(service.requests)

    notes.call("memory_delete", id=second, soft=False)
    assert context_of(tmp_path, "From Kenya, they say", "Where does the coffee come from?")
    assert len(service.requests) == requests  # the remaining notes are unchanged

    notes.call("memory_update", id=first, content="Which country grows our tea?")
    eventually(NotesFile(tmp_path).is_done)
    assert context_of(tmp_path, "From Kenya, they say", "Which country grows our tea?")

    notes.call("memory_delete", id=first, soft=True)
    assert ("From Kenya, they say", -1) not in vectors(tmp_path)


def test_a_question_is_a_worse_answer_to_a_question_than_a_statement(tmp_path: Path, notes: Server) -> None:
    question = notes.create("The key of the shed, where is it hidden?", namespace="one")
    statement = notes.create("The key of the shed, where is it hidden.", namespace="other")
    eventually(NotesFile(tmp_path).is_done)

    def cosines(query: str) -> dict[str, float]:
        return {hit["id"]: hit["score_breakdown"]["cosine"] for hit in notes.search(query)}

    by_question, by_words = cosines("who hid a key?"), cosines("who hid a key")
    assert by_words[question] == by_words[statement] == by_question[statement] < 1
    assert by_question[question] == pytest.approx(by_question[statement] - 0.1, abs=1e-6)


def test_a_note_that_begins_with_a_name_of_the_query_is_nearer(tmp_path: Path, notes: Server) -> None:
    by_ana = notes.create("Ana: the key of the shed is hidden", namespace="one")
    of_ana = notes.create("Ana, the key of the shed is hidden", namespace="other")
    eventually(NotesFile(tmp_path).is_done)

    def cosines(query: str) -> dict[str, float]:
        return {hit["id"]: hit["score_breakdown"]["cosine"] for hit in notes.search(query)}

    by_name, without = cosines("where did Ana hide a key"), cosines("where is a key")
    assert without[by_ana] == without[of_ana]
    assert by_name[of_ana] < 0.95
    assert by_name[by_ana] == pytest.approx(by_name[of_ana] + 0.05, abs=1e-6)


def test_the_note_after_a_question_is_nearer_to_the_question(tmp_path: Path, notes: Server) -> None:
    nearness = {}
    for mark in "?.":
        namespace = "question" if mark == "?" else "statement"
        notes.create(f"Where is the key of the shed hidden{mark}", namespace=namespace)
        nearness[mark] = notes.create("Under the pot", namespace=namespace)
    eventually(NotesFile(tmp_path).is_done)
    found = {hit["id"]: hit["score_breakdown"]["cosine"] for hit in notes.search("is the shed hidden", "semantic")}
    assert 1 > found[nearness["?"]] > found[nearness["."]] > 0
