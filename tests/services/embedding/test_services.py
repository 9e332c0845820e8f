"""Ollama and services with OpenAI's protocol, over real HTTP."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memory_mcp.errors import Unavailable
from memory_mcp.services.embedding import query_vectors, services, worker
from memory_mcp.services.embedding.services import Ollama, OpenAI, ollama_url
from tests.events import TIMEOUT_S, eventually
from tests.processes import environment
from tests.services.embedding.fake_service import FAULTS, FakeService, Fault, closed_port
from tests.services.embedding.servers import NotesFile, server
from tests.wire import FORCED, Stdio

SEVERAL = [f"note number {count} about {topic}" for count, topic in enumerate(["tea", "rain", "Rome", "bread"])]


def ollama(service: FakeService, **more: Any) -> dict[str, Any]:
    return {"embedder": "ollama", "ollama_host": service.url, "embed_model": "tiny", **more}


# Ollama


def test_notes_get_their_vectors_from_ollama_and_are_found_by_meaning(tmp_path: Path, service: FakeService) -> None:
    file = NotesFile(tmp_path)
    with server(tmp_path, **ollama(service)) as notes:
        ids = [notes.create(text) for text in SEVERAL]
        eventually(file.is_done)

        for id_, text in zip(ids, SEVERAL, strict=True):
            np.testing.assert_allclose(file.vectors(id_)[0], service.vector(text), atol=1e-6)
        for mode in ("semantic", "hybrid"):
            best = notes.search("rain", mode)[0]
            assert best["id"] == ids[1]
            assert best["score_breakdown"]["cosine"] > 0
    assert {(request.path, request.model) for request in service.requests} == {("/api/embed", "tiny")}
    assert file.space() == "ollama/tiny/64"


@pytest.mark.parametrize("flags", [True, False])
def test_ollamas_address_and_model_come_from_flags_or_variables(
    tmp_path: Path, service: FakeService, flags: bool
) -> None:
    other = FakeService()
    environ = {"OLLAMA_HOST": f"127.0.0.1:{(other if flags else service).port}", "MCP_EMBED_MODEL": "from-env"}
    given = {"ollama_host": service.url, "embed_model": "from-flag"} if flags else {}
    with server(tmp_path, environ, embedder="ollama", **given) as notes:
        notes.create("anything")
        eventually(NotesFile(tmp_path).is_done)
    assert {request.model for request in service.requests} == {"from-flag" if flags else "from-env"}
    assert other.requests == []
    other.close()


def test_several_notes_go_in_one_request(tmp_path: Path, service: FakeService, short_timeouts: None) -> None:
    with server(tmp_path, embedder="none") as notes:
        for text in SEVERAL:
            notes.create(text)
    with server(tmp_path, **ollama(service)):
        eventually(NotesFile(tmp_path).is_done)
    assert [request for request in service.requests if set(SEVERAL) <= set(request.texts)]
    assert len(service.requests) == 3, "one question whether it answers, the background, all notes"


def test_nomic_gets_its_prefixes(service: FakeService) -> None:
    embedder = Ollama(service.url, "nomic-embed-text")
    embedder.documents(["kept"])
    embedder.query("asked")
    assert [request.texts for request in service.requests] == [("search_document: kept",), ("search_query: asked",)]


def test_the_default_model_of_ollama_is_nomic(tmp_path: Path, service: FakeService) -> None:
    with server(tmp_path, embedder="ollama", ollama_host=service.url) as notes:
        notes.create("anything")
        eventually(NotesFile(tmp_path).is_done)
    assert NotesFile(tmp_path).space() == "ollama/nomic-embed-text/64"


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1:11434", "http://127.0.0.1:11434"),
        ("1.2.3.4", "http://1.2.3.4:11434"),
        ("1.2.3.4:1234", "http://1.2.3.4:1234"),
        (":1234", "http://127.0.0.1:1234"),
        ("http://1.2.3.4", "http://1.2.3.4:80"),
        ("https://1.2.3.4", "https://1.2.3.4:443"),
        ("https://example.com:1234", "https://example.com:1234"),
        ("example.com/", "http://example.com:11434"),
        (" example.com ", "http://example.com:11434"),
        ("https://example.com/ollama", "https://example.com:443/ollama"),
        ("https://example.com:1234/ollama/", "https://example.com:1234/ollama"),
        ("0.0.0.0", "http://127.0.0.1:11434"),
        ("0.0.0.0:1234", "http://127.0.0.1:1234"),
        ("10.0.0.0", "http://10.0.0.0:11434"),
        ("[::1]", "http://[::1]:11434"),
        ("[::1]:1234", "http://[::1]:1234"),
        ("::1", "http://[::1]:11434"),
    ],
)
def test_ollama_host_is_parsed_as_by_ollama(host: str, url: str) -> None:
    assert ollama_url(host) == url


def test_ollama_is_not_reached_through_a_proxy(monkeypatch: pytest.MonkeyPatch, service: FakeService) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{closed_port()}")
    assert Ollama(service.url, "tiny").documents(["anything"]).shape == (1, 64)


@pytest.mark.parametrize("host", ["", "nowhere.invalid", "http://", "not a host", "http://[::1", "127.0.0.1:99999"])
def test_an_invalid_host_is_unavailable(host: str) -> None:
    with pytest.raises(Unavailable):
        Ollama(host or f"127.0.0.1:{closed_port()}", "tiny").query("anything")


# Trouble


def set_seconds(patch: pytest.MonkeyPatch, seconds: float) -> None:
    """How long an answer may take."""
    for name in ("BATCH_TIMEOUT_S", "QUERY_TIMEOUT_S", "PROBE_TIMEOUT_S"):
        patch.setattr(services, name, seconds)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("kind", ["ollama", "openai"])
def test_an_invalid_vector_is_refused(
    monkeypatch: pytest.MonkeyPatch, service: FakeService, fault: str, kind: str
) -> None:
    set_seconds(monkeypatch, 0.1 if fault == "hanging" else 10)
    service.set_fault(FAULTS[fault])
    embedder = Ollama(service.url, "tiny") if kind == "ollama" else OpenAI(f"{service.url}/v1", None, "tiny")
    if fault != "unequal lengths":  # one vector alone is equal to itself
        with pytest.raises(Unavailable):
            embedder.query("anything")
    with pytest.raises(Unavailable):
        embedder.documents(["one", "two"])


WRONG_LENGTH = {"another length": Fault(spoil=lambda vectors: [[*vector, 1.0] for vector in vectors])}


SOME = [
    "status 500",
    "hanging",
    "no JSON",
    "one vector too few",
    "unequal lengths",
    "NaN",
    "a number beyond all bounds",
]


@pytest.mark.parametrize("fault", [*SOME, *WRONG_LENGTH])
def test_faulty_answers_store_nothing_and_are_retried(
    tmp_path: Path, service: FakeService, short_timeouts: None, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    file = NotesFile(tmp_path)
    with server(tmp_path, **ollama(service)) as notes:
        early = notes.create("An early note about tea")
        eventually(file.is_done)
        kept = file.vectors(early)

        service.set_fault((FAULTS | WRONG_LENGTH)[fault])
        set_seconds(monkeypatch, 0.2)
        late = notes.create("A late note about coffee")
        eventually(file.last_errors)
        answer = notes.call("memory_search", query="coffee")
        assert [hit["id"] for hit in answer["memories"]][:1] == [late]
        assert answer["memories"][0]["score_breakdown"]["cosine"] is None
        assert answer["notice"]
        assert file.waiting() == 1
        assert file.vectors(late) == {}
        assert file.vectors(early).keys() == kept.keys()
        assert not file.is_mixed()

        service.repair()
        set_seconds(monkeypatch, 10)
        eventually(file.is_done)
        np.testing.assert_allclose(file.vectors(late)[0], service.vector("A late note about coffee"), atol=1e-6)
        assert notes.search("coffee")[0]["score_breakdown"]["cosine"] > 0


@pytest.mark.parametrize("fault", ["status 500", "hanging", "NaN", "a number beyond all bounds"])
def test_a_service_that_is_faulty_from_the_start_stores_nothing(
    tmp_path: Path, service: FakeService, short_timeouts: None, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    file = NotesFile(tmp_path)
    set_seconds(monkeypatch, 0.2)
    service.set_fault(FAULTS[fault])
    with server(tmp_path, **ollama(service)) as notes:
        notes.create("An early note about tea")
        eventually(lambda: len(service.requests) > 2)
        assert (file.space(), file.waiting()) == (None, 1)
        assert file.rows("SELECT * FROM note_vectors") == []
        service.repair()
        set_seconds(monkeypatch, 10)
        eventually(file.is_done)


def test_writes_do_not_wait_for_a_service_that_hangs(tmp_path: Path, service: FakeService) -> None:
    service.set_fault(FAULTS["hanging"])
    with server(tmp_path, **ollama(service)) as notes:
        id_ = notes.create("The first of many")
        for count in range(10):
            notes.create(f"Note {count}")
            notes.call("memory_update", id=id_, content=f"The first, changed {count} times")
        assert service.requests, "it was asked, and hangs"
        assert NotesFile(tmp_path).waiting() == 11
        service.repair()
        eventually(NotesFile(tmp_path).is_done)


def test_a_write_stops_waiting_when_the_service_fails(
    tmp_path: Path, service: FakeService, short_timeouts: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "MAX_WAIT_S", 3600.0)
    with server(tmp_path, **ollama(service)) as notes:
        notes.create("A note that is embedded")
        service.set_fault(FAULTS["status 500"])
        notes.create("A note that is not")  # or the wait would not end


def test_a_search_does_not_wait_twice_for_a_service_that_hangs(
    tmp_path: Path, service: FakeService, short_timeouts: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(query_vectors, "RETRY_DELAY_S", 60.0)
    monkeypatch.setattr(services, "QUERY_TIMEOUT_S", 0.2)
    with server(tmp_path, **ollama(service)) as notes:
        notes.create("Something about tea")
        eventually(NotesFile(tmp_path).is_done)
        service.set_fault(FAULTS["hanging"])
        before = len(service.requests)
        for word in ("tea", "coffee", "water"):
            assert "Searched by words alone" in notes.call("memory_search", query=word)["notice"]
        assert len(service.requests) == before + 1


def test_a_stdio_server_reads_ollamas_variables_and_exits_while_it_hangs(
    tmp_path: Path, service: FakeService, capfd: pytest.CaptureFixture[str]
) -> None:
    env = environment(OLLAMA_HOST=f"127.0.0.1:{service.port}", MCP_EMBED_MODEL="from-env", HTTP_PROXY="127.0.0.1:9")
    held = service.hold("unfinished")
    process = Stdio.start(tmp_path, "--embedder", "ollama", env=env)
    process.call("memory_create", content="unfinished business")
    assert held.arrived.wait(TIMEOUT_S)
    assert process.close() == 0
    assert FORCED not in capfd.readouterr().err
    assert NotesFile(tmp_path).waiting() == 1
    assert {request.model for request in service.requests} == {"from-env"}


# OpenAI's protocol


def test_an_openai_service_gets_the_key_and_may_answer_in_any_order(
    tmp_path: Path, service: FakeService, short_timeouts: None
) -> None:
    file = NotesFile(tmp_path)
    environ = {"OPENAI_BASE_URL": f"{service.url}/v1/", "OPENAI_API_KEY": "sk-test", "MCP_EMBED_MODEL": "tiny"}
    with server(tmp_path, embedder="none") as notes:
        ids = [notes.create(text) for text in SEVERAL]
    with server(tmp_path, environ, embedder="openai") as notes:
        eventually(file.is_done)
        assert notes.search("bread", "semantic")[0]["id"] == ids[3]
    for id_, text in zip(ids, SEVERAL, strict=True):
        np.testing.assert_allclose(file.vectors(id_)[0], service.vector(text), atol=1e-6)
    assert {(request.path, request.model) for request in service.requests} == {("/v1/embeddings", "tiny")}
    assert {request.headers["Authorization"] for request in service.requests} == {"Bearer sk-test"}
    assert file.space() == "openai/tiny/64"


def test_without_a_key_none_is_sent(service: FakeService) -> None:
    OpenAI(f"{service.url}/v1", None, "tiny").query("anything")
    assert "Authorization" not in service.requests[0].headers


@pytest.mark.parametrize(
    "body", [b'{"data": [{"embedding": [1.0]}]}', b'{"data": "none"}', b'{"data": [[1.0]]}', b"{}"]
)
def test_an_answer_in_another_format_is_refused(service: FakeService, body: bytes) -> None:
    service.set_fault(Fault(body=body))
    with pytest.raises(Unavailable):
        OpenAI(f"{service.url}/v1", None, "tiny").query("anything")
