"""The choice of the embedder, and the change to another one."""

from collections.abc import Callable
from pathlib import Path

import pytest

from memory_mcp.server.request_context import local_caller
from memory_mcp.services.embedding import Embedders, EmbeddingOptions, worker
from memory_mcp.services.embedding.model_files import MODEL
from tests.events import TIMEOUT_S, eventually
from tests.services.embedding.fake_service import FAULTS, FakeService, closed_port
from tests.services.embedding.servers import NotesFile, install_model, needs_model, server
from tests.wire import Stdio

BUILTIN = f"builtin/{MODEL}/384"
OLLAMA = "ollama/nomic-embed-text/64"
DISABLED = "semantic search disabled (no embedding backend)"  # the text is fixed by the spec
SENTENCES = [f"Sentence number {count} about {topic}" for count, topic in enumerate(["tea", "rain", "Rome"] * 4)]


def closed_address() -> str:
    return f"127.0.0.1:{closed_port()}"


# auto


@needs_model
def test_auto_uses_ollama_if_it_answers(tmp_path: Path, service: FakeService) -> None:
    with server(tmp_path, ollama_host=service.url) as notes:
        notes.create("anything")
        eventually(NotesFile(tmp_path).is_done)
    assert NotesFile(tmp_path).space() == OLLAMA


@needs_model
@pytest.mark.parametrize("fault", ["status 404", "NaN"])
def test_auto_uses_the_builtin_model_if_ollama_lacks_the_model(
    tmp_path: Path, service: FakeService, fault: str
) -> None:
    service.set_fault(FAULTS[fault])
    with server(tmp_path, ollama_host=service.url) as notes:
        notes.create("anything")
        eventually(NotesFile(tmp_path).is_done)
    assert NotesFile(tmp_path).space() == BUILTIN


@needs_model
def test_auto_uses_the_builtin_model_without_ollama(tmp_path: Path) -> None:
    with server(tmp_path, ollama_host=closed_address()) as notes:
        notes.create("anything")
        eventually(NotesFile(tmp_path).is_done)
    assert NotesFile(tmp_path).space() == BUILTIN


@needs_model
def test_without_an_embedder_search_is_by_words_until_the_model_is_pulled(
    tmp_path: Path, short_timeouts: None, caplog: pytest.LogCaptureFixture
) -> None:
    file, models = NotesFile(tmp_path / "data"), tmp_path / "models"
    with server(tmp_path / "data", ollama_host=closed_address(), models_dir=models) as notes:
        id_ = notes.create("The vet will treat our dog")
        for mode in ("hybrid", "lexical", "semantic"):
            answer = notes.call("memory_search", query="dog", search_mode=mode)
            assert [hit["id"] for hit in answer["memories"]] == [id_]
            assert answer["memories"][0]["score_breakdown"]["cosine"] is None
            assert ("notice" in answer) == (mode != "lexical")
        eventually(lambda: DISABLED in caplog.messages)
        assert (file.space(), file.waiting()) == (None, 1)

        install_model(models)
        eventually(file.is_done)
        assert file.space() == BUILTIN
        assert notes.search("who looks after sick animals", "semantic")[0]["score_breakdown"]["cosine"] > 0


@needs_model
def test_a_write_notices_that_the_model_has_been_pulled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for interval in ("POLL_INTERVAL_S", "BUSY_POLL_INTERVAL_S"):
        monkeypatch.setattr(worker, interval, 3600.0)  # only a write wakes the worker
    file, models = NotesFile(tmp_path / "data"), tmp_path / "models"
    with server(tmp_path / "data", ollama_host=closed_address(), models_dir=models) as notes:
        notes.create("The vet will treat our dog")
        install_model(models)
        notes.create("The invoice is due on Friday")
        eventually(file.is_done)


def test_a_server_without_an_embedder_says_so_on_stderr(tmp_path: Path) -> None:
    flags = ["--ollama-host", closed_address(), "--models-dir", str(tmp_path / "models")]
    log = tmp_path / "log"
    with log.open("w") as stderr:
        process = Stdio.start(tmp_path / "data", *flags, stderr=stderr, hello=False)
        eventually(lambda: DISABLED in log.read_text())
        assert process.close() == 0


@pytest.mark.parametrize("embedder", ["ollama", "none"])
def test_the_log_says_that_the_embedder_is_missing(
    tmp_path: Path, short_timeouts: None, caplog: pytest.LogCaptureFixture, embedder: str
) -> None:
    with server(tmp_path, embedder=embedder, ollama_host=closed_address()):
        eventually(lambda: DISABLED in caplog.messages)


def test_the_workers_of_all_families_log_it_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    embedders = Embedders(EmbeddingOptions("none", None, "", "", None, tmp_path))
    for _ in range(2):
        embedders.warn_disabled()
    assert caplog.messages == [DISABLED]


@needs_model
def test_auto_logs_that_the_recorded_embedder_does_not_answer(
    tmp_path: Path, service: FakeService, short_timeouts: None, caplog: pytest.LogCaptureFixture
) -> None:
    with server(tmp_path, ollama_host=service.url) as notes:
        notes.create("anything")
        eventually(NotesFile(tmp_path).is_done)
    service.stop()
    with server(tmp_path, ollama_host=service.url):
        eventually(lambda: DISABLED in caplog.messages)


@needs_model
def test_auto_keeps_the_builtin_model_when_ollama_starts(
    tmp_path: Path, service: FakeService, short_timeouts: None
) -> None:
    file = NotesFile(tmp_path)
    with server(tmp_path, embedder="builtin") as notes:
        notes.create("The vet will treat our dog")
        eventually(file.is_done)
    with server(tmp_path, ollama_host=service.url) as notes:
        notes.create("The invoice is due on Friday")
        eventually(file.is_done)
        assert notes.search("who looks after sick animals", "semantic")[0]["title"] == "The vet will treat our dog"
    assert file.space() == BUILTIN
    assert service.requests == []


@needs_model
def test_auto_keeps_ollama_while_it_is_down(tmp_path: Path, service: FakeService, short_timeouts: None) -> None:
    file = NotesFile(tmp_path)
    with server(tmp_path, ollama_host=service.url, embed_model="tiny") as notes:
        notes.create("The vet will treat our dog")
        eventually(file.is_done)
    service.stop()
    with server(tmp_path, ollama_host=service.url) as notes:
        notes.create("The invoice is due on Friday")
        eventually(file.last_errors)
        assert file.space() == "ollama/tiny/64"
        service.start()
        eventually(file.is_done)
    assert file.space() == "ollama/tiny/64"
    assert {request.model for request in service.requests} == {"tiny"}


def test_with_none_no_request_is_sent_and_notes_wait(
    tmp_path: Path, service: FakeService, short_timeouts: None
) -> None:
    with server(tmp_path, embedder="none", ollama_host=service.url) as notes:
        id_ = notes.create("The vet will treat our dog")
        answer = notes.call("memory_search", query="dog")
        assert [hit["id"] for hit in answer["memories"]] == [id_]
        assert "notice" not in answer, "it was switched off on purpose"
        assert "--embedder" in notes.call("memory_search", query="dog", search_mode="semantic")["notice"]
    assert service.requests == []
    assert NotesFile(tmp_path).waiting() == 1


# Another model than before


@needs_model
def test_another_embedder_embeds_everything_again_and_spaces_never_mix(
    tmp_path: Path, service: FakeService, short_timeouts: None
) -> None:
    file = NotesFile(tmp_path)
    mixed: list[bool] = []
    with server(tmp_path, embedder="ollama", ollama_host=service.url) as notes:
        for text in SENTENCES:
            notes.create(text)
        eventually(noting(mixed, file, file.is_done))
    assert file.space() == OLLAMA
    with server(tmp_path, embedder="builtin") as notes:
        eventually(noting(mixed, file, lambda: file.space() == BUILTIN and file.is_done()))
        found = notes.search("what do I know about the weather", "semantic")
        assert "rain" in found[0]["title"]
        assert found[0]["score_breakdown"]["cosine"] > 0
    assert not any(mixed)
    assert file.rows("SELECT DISTINCT length(vector) FROM note_vectors") == [(4 * 384,)]


def noting(mixed: list[bool], file: NotesFile, happens: Callable[[], bool]) -> Callable[[], bool]:
    def noted() -> bool:
        mixed.append(file.is_mixed())
        return happens()

    return noted


def test_vectors_stay_until_another_embedder_answers(
    tmp_path: Path, service: FakeService, short_timeouts: None
) -> None:
    file = NotesFile(tmp_path)
    with server(tmp_path, embedder="ollama", ollama_host=service.url) as notes:
        notes.create("The vet will treat our dog")
        eventually(file.is_done)
    with server(tmp_path, embedder="builtin", models_dir=tmp_path / "none") as notes:
        answer = notes.call("memory_search", query="dog")
        assert answer["memories"][0]["score_breakdown"]["cosine"] is None
        assert "ollama" in answer["notice"]
    assert file.space() == OLLAMA
    assert file.is_done()


def test_two_servers_that_disagree_do_not_embed_alternately(
    tmp_path: Path, service: FakeService, short_timeouts: None
) -> None:
    file = NotesFile(tmp_path)
    service.dimensions["large"] = 128
    with server(tmp_path, embedder="ollama", ollama_host=service.url, embed_model="small") as one:
        for text in SENTENCES:
            one.create(text)
        eventually(file.is_done)
        with server(tmp_path, embedder="ollama", ollama_host=service.url, embed_model="large") as other:
            eventually(lambda: file.space() == "ollama/large/128" and file.is_done())
            late = [f"Late {count}" for count in range(8)]
            for text, notes in zip(late, [one, other] * 4, strict=True):
                notes.create(text)
            mixed: list[bool] = []
            eventually(noting(mixed, file, file.is_done))
            assert not any(mixed)
            assert other.search("rain")[0]["score_breakdown"]["cosine"] > 0
            answer = one.call("memory_search", query="rain")
            assert answer["memories"][0]["score_breakdown"]["cosine"] is None
            assert "large" in answer["notice"]
    assert file.space() == "ollama/large/128"
    for model in ("small", "large"):
        counts = service.texts(model)
        assert {counts[text] for text in SENTENCES} == {1}
    assert {service.texts("large")[text] for text in late} == {1}
    assert {service.texts("small")[text] for text in late} == {0}


def test_an_overruled_server_releases_the_notes(tmp_path: Path, service: FakeService, short_timeouts: None) -> None:
    file = NotesFile(tmp_path)
    with server(tmp_path, embedder="none") as notes:
        for text in SENTENCES * 4:  # more than go in one request
            notes.create(text)
    small, large = service.hold("Sentence", "small"), service.hold("Sentence", "large")
    with server(tmp_path, embedder="ollama", ollama_host=service.url, embed_model="small") as one:
        assert small.arrived.wait(TIMEOUT_S)
        with server(tmp_path, embedder="ollama", ollama_host=service.url, embed_model="large"):
            assert large.arrived.wait(TIMEOUT_S)
            before = len(service.requests)
            small.release.set()
            one.create("Something else for it to do")
            large.release.set()
            eventually(file.is_done)
    assert not file.is_mixed()
    assert {request.model for request in service.requests[before:]} == {"large"}, (
        "the one that was overruled works in vain"
    )


def test_a_reindex_does_not_delay_notes_being_embedded(
    tmp_path: Path, service: FakeService, short_timeouts: None
) -> None:
    file = NotesFile(tmp_path)
    with server(tmp_path, embedder="ollama", ollama_host=service.url) as notes:
        notes.create("The first note")
        eventually(file.is_done)
        held = service.hold("second")
        notes.create("The second note")
        assert held.arrived.wait(TIMEOUT_S)
        with server(tmp_path, embedder="none") as other:
            assert other.app.notes.writer.reindex(local_caller(other.app)) == 2
        held.release.set()
        eventually(file.is_done)
