"""Notes and their vectors: what the tools do while an embedder works, fails, changes or dies."""

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import httpx
import numpy as np
import pytest

from memory_mcp.caller import ALL_SCOPES, LOCAL_USER, Caller
from memory_mcp.services.embedding import services, worker
from memory_mcp.services.embedding.chunks import MAX_CHARS
from memory_mcp.services.embedding.model_files import MODEL
from memory_mcp.services.search.ranking import IMPORTANCE_WEIGHT, LEXICAL_WEIGHT
from tests.events import TIMEOUT_S, eventually
from tests.services.embedding.fake_service import FakeService, running_service
from tests.services.embedding.servers import NotesFile, Server, needs_model, server, shorten_timeouts
from tests.wire import Http, Stdio, http_server

CLIENT = {"name": "many", "version": "1"}
ANSWER = "Aunt Berta keeps her savings in the blue teapot on the kitchen table."


@pytest.fixture
def service() -> Iterator[FakeService]:
    with running_service() as service:
        yield service


@pytest.fixture
def short_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    shorten_timeouts(monkeypatch)


@pytest.fixture
def file(tmp_path: Path) -> NotesFile:
    return NotesFile(tmp_path)


def ollama(service: FakeService) -> dict[str, Any]:
    return {"embedder": "ollama", "ollama_host": service.url, "embed_model": "tiny"}


# Every tool without its embedder


@pytest.mark.parametrize("was_there", [True, False])
def test_every_tool_works_while_ollama_is_down(
    tmp_path: Path, service: FakeService, file: NotesFile, short_timeouts: None, was_there: bool
) -> None:
    if was_there:
        with server(tmp_path, **ollama(service)) as notes:
            notes.create("Tea is what I drink")
            eventually(file.is_done)
    service.stop()
    with server(tmp_path, **ollama(service)) as notes:
        use_every_tool(notes)
        waiting = file.waiting()
        assert waiting >= 2
        service.start()
        eventually(file.is_done)
        answer = notes.call("memory_search", query="coffee")
        assert answer["memories"][0]["score_breakdown"]["cosine"] > 0
        assert "notice" not in answer


def use_every_tool(notes: Server) -> None:
    """And look closely at what search answers."""
    used = {"memory_search"}

    def call(tool: str, **arguments: Any) -> dict[str, Any]:
        used.add(tool)
        return notes.call(tool, **arguments)

    first = call("memory_create", content="Coffee keeps me awake", importance=0.9)["id"]
    second = call("memory_create", content="The garden needs water", tags=["home"])["id"]
    gone = call("memory_create", content="No one needs this")["id"]
    assert call("memory_update", id=first, content="Coffee kept me awake")["version"] == 2
    assert call("memory_get", id=first)["content"] == "Coffee kept me awake"
    assert call("memory_link", source_id=first, target_id=second)["linked"] == 1
    assert {node["id"] for node in call("memory_neighbors", id=first)["nodes"]} >= {second}
    assert call("memory_unlink", source_id=first, target_id=second)["unlinked"] == 1
    assert call("memory_delete", id=gone)["deleted"]
    assert call("memory_list_namespaces")["namespaces"]
    assert "home" in {tag["tag"] for tag in call("memory_list_tags")["tags"]}
    assert first in {note["id"] for note in call("memory_recent")["memories"]}
    assert call("memory_stats")["total"] >= 2
    for mode in ("hybrid", "semantic", "lexical"):
        answer = notes.call("memory_search", query="coffee", search_mode=mode)
        best = answer["memories"][0]
        parts = best["score_breakdown"]
        assert best["id"] == first
        assert parts["cosine"] is None
        weighed = LEXICAL_WEIGHT * parts["lexical"] + IMPORTANCE_WEIGHT * parts["importance"]
        assert best["score"] == pytest.approx(weighed / (LEXICAL_WEIGHT + IMPORTANCE_WEIGHT), abs=1e-6)
        assert ("words alone" in answer.get("notice", "")) == (mode != "lexical")
    assert used == notes.tools()


def test_without_ollama_no_pull_of_a_model_is_suggested(
    tmp_path: Path, service: FakeService, short_timeouts: None
) -> None:
    service.stop()
    with server(tmp_path, **ollama(service)) as notes:
        notes.create("Coffee keeps me awake")
        assert "models pull" not in notes.call("memory_search", query="coffee")["notice"]


# The queue


def test_a_changed_note_is_queued_once(tmp_path: Path, file: NotesFile) -> None:
    with server(tmp_path, embedder="none") as notes:
        id_ = notes.create("The first text")
        other = notes.create("Another note")
        for count in range(5):
            notes.call("memory_update", id=id_, content=f"The text, changed {count} times")
        assert file.waiting() == 2
        notes.call("memory_delete", id=other)
        assert file.waiting() == 1
        notes.call("memory_delete", id=id_, soft=False)
        assert file.waiting() == 0


def test_a_change_without_new_text_is_not_embedded(
    tmp_path: Path, service: FakeService, file: NotesFile, short_timeouts: None
) -> None:
    with server(tmp_path, **ollama(service)) as notes:
        id_ = notes.create("Coffee keeps me awake")
        eventually(file.is_done)
        before = len(service.requests)
        notes.call("memory_update", id=id_, importance=0.9, add_tags=["drinks"], metadata_patch={"a": 1}, folder="x")
        notes.call("memory_get", id=id_)
        assert file.waiting() == 0
        assert len(service.requests) == before


def test_a_note_changed_while_embedded_gets_the_new_vector(
    tmp_path: Path, service: FakeService, file: NotesFile, short_timeouts: None
) -> None:
    held = service.hold("outdated")
    with server(tmp_path, **ollama(service)) as notes:
        id_ = notes.create("An outdated text")
        assert held.arrived.wait(TIMEOUT_S)
        notes.call("memory_update", id=id_, content="A current text")
        held.release.set()
        eventually(file.is_done)
    np.testing.assert_allclose(file.vectors(id_)[0], service.vector("A current text"), atol=1e-6)


@pytest.mark.parametrize("soft", [True, False])
def test_a_note_deleted_while_embedded_leaves_no_vector(
    tmp_path: Path, service: FakeService, file: NotesFile, short_timeouts: None, soft: bool
) -> None:
    held = service.hold("outdated")
    with server(tmp_path, **ollama(service)) as notes:
        id_ = notes.create("An outdated text")
        assert held.arrived.wait(TIMEOUT_S)
        notes.call("memory_delete", id=id_, soft=soft)
        held.release.set()
        kept = notes.create("A current text")
        eventually(lambda: file.vectors(kept))
        assert file.vectors(id_) == {}
        assert [hit["id"] for hit in notes.search("text", "semantic")] == [kept]
        if soft:
            notes.call("memory_update", id=id_, remove_tags=["archived"])
            eventually(lambda: file.vectors(id_))


def test_a_long_note_is_found_although_it_has_become_short_meanwhile(
    tmp_path: Path, service: FakeService, file: NotesFile, short_timeouts: None
) -> None:
    filling = "Nothing of interest happened on that day.\n\n" * 150
    with server(tmp_path, **ollama(service)) as notes:
        id_ = notes.create(f"{filling}zebra zebra zebra")
        eventually(file.is_done)
        assert len(file.vectors(id_)) > 3
        held = service.hold("shortened")
        notes.call("memory_update", id=id_, content="It was shortened")
        assert held.arrived.wait(TIMEOUT_S)
        for mode in ("semantic", "hybrid"):
            assert [hit["snippet"] for hit in notes.search("zebra", mode)] == ["It was shortened"]
        held.release.set()
        eventually(file.is_done)
        assert len(file.vectors(id_)) == 1


def test_a_note_that_always_fails_does_not_block_others(
    tmp_path: Path, service: FakeService, file: NotesFile, short_timeouts: None
) -> None:
    service.refused_word = "poison"
    with server(tmp_path, embedder="none") as notes:
        good = [notes.create(f"Note {count}", namespace=f"n{count}") for count in range(3)]
        bad = notes.create("A note that is poison to the model", namespace="bad")
        good += [notes.create(f"Note {count}", namespace=f"n{count}") for count in range(3, 6)]
    with server(tmp_path, **ollama(service)):
        eventually(lambda: all(file.vectors(id_) for id_ in good))
        assert file.vectors(bad) == {}
        assert file.waiting() == 1


def test_a_killed_server_loses_no_queued_note(
    tmp_path: Path, service: FakeService, file: NotesFile, short_timeouts: None
) -> None:
    held = service.hold("unfinished")
    flags = ["--embedder", "ollama", "--ollama-host", service.url, "--embed-model", "tiny"]
    victim = Stdio.start(tmp_path, *flags)
    id_ = victim.call("memory_create", content="unfinished business")["id"]
    assert held.arrived.wait(TIMEOUT_S)
    victim.kill()
    held.release.set()
    assert file.waiting() == 1
    assert file.rows("SELECT count(claimed_until) FROM embed_queue") == [(1,)]

    file.rows("UPDATE embed_queue SET claimed_until = '2000-01-01T00:00:00.000000Z'")  # it runs out in two minutes
    with server(tmp_path, **ollama(service)):
        eventually(file.is_done)
    np.testing.assert_allclose(file.vectors(id_)[0], service.vector("unfinished business"), atol=1e-6)


def test_a_stopping_server_releases_unfinished_notes(
    tmp_path: Path, service: FakeService, file: NotesFile, short_timeouts: None
) -> None:
    held = service.hold("unfinished")
    with server(tmp_path, **ollama(service)) as notes:
        notes.create("unfinished business")
        assert held.arrived.wait(TIMEOUT_S)
    held.release.set()
    with server(tmp_path, **ollama(service)):
        eventually(file.is_done)


def test_several_servers_share_the_queue_and_embed_each_note_once(
    tmp_path: Path, service: FakeService, file: NotesFile
) -> None:
    service.pause = 0.05
    flags = ["--embedder", "ollama", "--ollama-host", service.url, "--embed-model", "tiny"]
    servers = [Stdio.start(tmp_path, *flags, hello=False) for _ in range(3)]
    for process in servers:
        process.ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": CLIENT})
        process.send({"method": "notifications/initialized"})
    texts = [f"Note {count} of many" for count in range(30)]
    for text, process in zip(texts, servers * 10, strict=True):
        process.post("tools/call", {"name": "memory_create", "arguments": {"content": text}})
    for process in servers:
        process.ask("ping")
    eventually(lambda: file.rows("SELECT count(*) FROM notes") == [(30,)] and file.is_done())
    for process in servers:
        assert process.close() == 0
    assert {service.texts()[text] for text in texts} == {1}
    others = [text for text in service.texts() if "of many" not in text]
    assert set(others) <= {*worker.BACKGROUND, "hello"}


# The built-in model


@needs_model
def test_the_end_of_a_long_note_is_found_by_meaning_and_the_snippet_shows_that_part(
    tmp_path: Path, file: NotesFile
) -> None:
    topics = ["The meeting was moved again.", "Trains were late for most of the week.", "The office got a new printer."]
    paragraphs = [f"Entry {count}. {topics[count % 3]} {topics[(count + 1) % 3]}" for count in range(240)]
    paragraphs[220] = f"Entry 220. {ANSWER}"
    content = "\n\n".join(paragraphs)
    with server(tmp_path, embedder="builtin") as notes:
        long = notes.create(content, title="Diary")
        for text in ("The museum is closed on Mondays", "He plays the violin", "Tabs, not spaces"):
            notes.create(text)
        assert len(content) >= 18_000
        eventually(file.is_done)
        for mode in ("semantic", "hybrid"):
            best = notes.search("where does my relative hide money", mode)[0]
            assert best["id"] == long
            shown = [int(number) for number in re.findall(r"Entry (\d+)", best["snippet"])]
            assert shown
            assert 0 <= content.index(ANSWER) - content.index(f"Entry {shown[0]}.") < MAX_CHARS


@needs_model
def test_a_paraphrase_finds_by_meaning_alone(tmp_path: Path, file: NotesFile) -> None:
    with server(tmp_path, embedder="builtin") as notes:
        wanted = notes.create("The vet will treat our dog tomorrow", namespace="home")
        notes.create("The invoice is due on Friday", namespace="work")
        notes.create("Deploys go out on Tuesdays.", namespace="work")
        eventually(file.is_done)
        question = "who looks after sick animals"
        assert notes.search(question, "lexical") == []
        for mode in ("semantic", "hybrid"):
            assert notes.search(question, mode)[0]["id"] == wanted
        for mode in ("semantic", "hybrid"):
            nothing = notes.call("memory_search", query=question, search_mode=mode, namespace="work")
            assert nothing["memories"] == []
            assert nothing["notice"].startswith("Nothing fits this query.")
        assert notes.search("xqzzt flurbo") == []
        assert notes.search("quantum chromodynamics on a lattice, computed tomorrow by physicists") == []  # one word
        assert notes.search("tomorrow xqzzt")[0]["id"] == wanted


@needs_model
@pytest.mark.parametrize("mode", ["semantic", "hybrid"])
def test_words_that_do_not_exist_find_nothing_and_rare_ones_do(tmp_path: Path, file: NotesFile, mode: str) -> None:
    with server(tmp_path, embedder="builtin") as notes:
        notes.create("Zed, dark", title="editor")
        notes.create("384 numbers for a sentence; cosine says how near.", title="Embeddings")
        doctor = notes.create("The skin doctor, Meyer, on Tuesday.")
        eventually(file.is_done)
        for word in ("zzqqxx", "qqxxzz", "yujnqmsl", "fnord zzyzx", "xqzzt flurbo"):
            assert notes.search(word, mode) == [], word
        assert notes.search("dermatologist", mode)[0]["id"] == doctor


@needs_model
def test_similar_names_notes_with_nearly_the_same_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "MAX_WAIT_S", 15.0)  # a busy machine must not make this test fail
    with server(tmp_path, embedder="builtin") as notes:
        first = notes.call("memory_create", content="The staging server is restarted every night at two o'clock.")
        assert "similar" not in first
        equal = notes.call("memory_create", content="the staging  server is restarted\nevery NIGHT at two o'clock.")
        assert equal["similar"] == [first["id"]]
        near = notes.call("memory_create", content="The staging server is restarted each night at two o'clock.")
        assert set(near["similar"]) == {first["id"], equal["id"]}
        other = notes.call("memory_create", content="The production database is backed up on Sundays.")
        assert "similar" not in other
        elsewhere = notes.call("memory_create", content=first["content"], namespace="elsewhere")
        assert "similar" not in elsewhere
        changed = notes.call("memory_update", id=other["id"], content=near["content"])
        assert set(changed["similar"]) == {first["id"], equal["id"], near["id"]}
        notes.call("memory_delete", id=equal["id"])
        assert equal["id"] not in notes.call("memory_create", content=first["content"])["similar"]


@needs_model
def test_long_notes_that_only_begin_alike_are_not_similar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "MAX_WAIT_S", 15.0)
    form = "Weekly report. Every entry follows the company's form, which everybody has to fill in.\n\n" * 18
    with server(tmp_path, embedder="builtin") as notes:
        notes.create(form + "My dog was taken to the vet since he would not eat any more. " * 15)
        other = notes.call("memory_create", content=form + "Interest rates rose, and so shares fell in London. " * 15)
        assert "similar" not in other


def test_equal_texts_are_similar_without_any_embedder(tmp_path: Path) -> None:
    with server(tmp_path, embedder="none") as notes:
        first = notes.create("Coffee keeps me awake")
        assert notes.call("memory_create", content="coffee   keeps me AWAKE")["similar"] == [first]


def semantic(server: Stdio, query: str) -> dict[str, float]:
    """The cosine of each note that has its vectors by now."""
    hits = server.call("memory_search", query=query, search_mode="semantic")["memories"]
    parts = {hit["title"]: hit["score_breakdown"] for hit in hits}
    return {title: found["cosine"] for title, found in parts.items() if found["cosine"] is not None}


@needs_model
@pytest.mark.parametrize("soft", [True, False])
def test_a_deleted_note_leaves_nothing_in_the_next_one(tmp_path: Path, soft: bool) -> None:
    server = Stdio.start(tmp_path, "--embedder", "builtin")
    secret = server.call("memory_create", content="my bank vault passphrase is correct horse battery staple")
    server.call("memory_create", content="ok, noted")
    eventually(lambda: len(semantic(server, "what is the vault passphrase?")) == 2)
    before = semantic(server, "what is the vault passphrase?")["ok, noted"]

    server.call("memory_delete", id=secret["id"], soft=soft)
    assert semantic(server, "what is the vault passphrase?").get("ok, noted", 0.0) < before - 0.05
    assert server.call("memory_search", query="passphrase", search_mode="lexical")["memories"] == []
    server.close()
    if not soft:
        assert b"passphrase" not in (tmp_path / "notes.db").read_bytes()


@needs_model
def test_the_next_server_continues_an_interrupted_long_note(tmp_path: Path, file: NotesFile) -> None:
    server = Stdio.start(tmp_path, "--embedder", "builtin")
    server.call("memory_create", content="The quick brown fox jumps over the lazy dog. " * 200)
    assert server.close() == 0

    server = Stdio.start(tmp_path, "--embedder", "builtin")
    eventually(file.is_done)
    assert len(semantic(server, "an animal that jumps")) == 1
    server.close()


# Over HTTP: reindexing, and who makes the vectors


def person(http: Http) -> httpx.Client:
    browser = httpx.Client(base_url=http.url, timeout=60)
    assert browser.get(http.link).status_code == 303
    return browser


def stats_of(browser: httpx.Client) -> dict[str, Any]:
    return cast(dict[str, Any], browser.get("/api/mcp/memory/embed-stats").json())


def scores(found: dict[str, Any]) -> list[tuple[str, dict[str, float]]]:
    return [(hit["snippet"], hit["score_breakdown"]) for hit in found["memories"]]


def flags(service: FakeService) -> list[str]:
    return ["--embedder", "ollama", "--ollama-host", service.url, "--embed-model", "tiny"]


def test_during_a_reindex_old_vectors_are_used(tmp_path: Path, service: FakeService) -> None:
    with http_server(tmp_path, *flags(service)) as http, closing(person(http)) as browser:
        before = stats_of(browser)
        for text in (ANSWER, "Coffee keeps me awake", "The train leaves at noon"):
            http.modern_call("memory_create", content=text)
        eventually(lambda: stats_of(browser)["queue_size"] == 0)
        found_before = http.modern_call("memory_search", query="savings on a table", search_mode="semantic")
        held = service.hold("teapot")
        assert browser.post("/api/mcp/memory/reindex").json() == {"queued": 3}
        assert held.arrived.wait(TIMEOUT_S)
        found = http.modern_call("memory_search", query="savings on a table", search_mode="semantic")
        during = stats_of(browser)
        service.release()
        eventually(lambda: stats_of(browser)["queue_size"] == 0)
        after = stats_of(browser)

    assert before == during | {"queue_size": 0, "total": 0, "total_with_embedding": 0, "backend_dim": None}
    assert "notice" not in found
    assert found["memories"][0]["snippet"] == ANSWER
    assert scores(found) == scores(found_before)
    assert (during["queue_size"], during["total_with_embedding"]) == (3, 3)
    assert after == during | {"queue_size": 0}
    assert service.texts("tiny")[f"{ANSWER}"] == 2


def test_a_reindex_chooses_the_embedder_again(
    tmp_path: Path, service: FakeService, file: NotesFile, short_timeouts: None
) -> None:
    with server(tmp_path, **ollama(service)) as notes:
        id_ = notes.create("Coffee keeps me awake")
        eventually(file.is_done)
        assert [hit["id"] for hit in notes.search("coffee", "semantic")] == [id_]
        service.dimensions["tiny"] = 32  # the service has another model of the same name
        notes.app.notes.writer.reindex(Caller(LOCAL_USER, ALL_SCOPES, frozenset({"notes"})))
        eventually(lambda: file.space() == "ollama/tiny/32" and file.is_done())
        assert not file.is_mixed()
        assert [hit["id"] for hit in notes.search("coffee", "semantic")] == [id_]


def test_stats_name_the_embedder_and_whether_it_answers(tmp_path: Path, service: FakeService) -> None:
    service.stop()
    with http_server(tmp_path, *flags(service)) as http, closing(person(http)) as browser:
        assert stats_of(browser) == {
            "queue_size": 0,
            "total": 0,
            "total_with_embedding": 0,
            "backend_name": "ollama/tiny",
            "backend_dim": None,
            "enabled": False,
        }


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"embedder": "none"}, None),
        ({"embedder": "auto", "models_dir": "no model"}, None),
        ({"embedder": "builtin", "models_dir": "no model"}, f"builtin/{MODEL}"),
    ],
)
def test_an_embedder_that_cannot_make_vectors_is_not_enabled(
    tmp_path: Path, service: FakeService, options: dict[str, Any], name: str | None
) -> None:
    service.stop()
    placed = options | ({"models_dir": tmp_path / options["models_dir"]} if "models_dir" in options else {})
    with server(tmp_path / "data", ollama_host=service.url, **placed) as notes:
        stats = notes.app.notes.reader.embed_stats(Caller(LOCAL_USER, ALL_SCOPES, frozenset({"notes"})))
    assert (stats.backend_name, stats.enabled) == (name, False)


def test_a_service_that_comes_back_is_enabled_again(
    tmp_path: Path, service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services, "NOT_READY_TTL_S", 0.0)
    caller = Caller(LOCAL_USER, ALL_SCOPES, frozenset({"notes"}))
    service.stop()
    with server(tmp_path, ollama_host=service.url, embedder="auto", models_dir=tmp_path / "no model") as notes:
        assert not notes.app.notes.reader.embed_stats(caller).enabled
        service.start()
        stats = notes.app.notes.reader.embed_stats(caller)
    assert (stats.backend_name, stats.enabled) == ("ollama/nomic-embed-text", True)
