"""The built-in model, from the user's cache."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from memory_mcp.errors import Unavailable
from memory_mcp.services.embedding import model_files
from memory_mcp.services.embedding.builtin import QUERY_PREFIX, Builtin, processor_count
from tests.events import eventually
from tests.services.embedding.servers import INSTALLED, NotesFile, install_model, needs_model, server

TEXTS = ["My cat is ill.", "The invoice is due on Friday.", "コーヒーが好きです。", "x", "word " * 3000]


@pytest.fixture(scope="module")
def builtin() -> Builtin:
    return Builtin(INSTALLED)


@needs_model
def test_vectors_have_384_dimensions_and_unit_length(builtin: Builtin) -> None:
    vectors = builtin.documents(TEXTS)
    assert vectors.shape == (len(TEXTS), 384)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(builtin.query("My cat is ill.")), 1, atol=1e-5)


@needs_model
def test_no_more_queries_are_embedded_at_once_than_there_are_processors(
    builtin: Builtin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ONNX Runtime keeps the memory of each that has run beside others."""
    clients = 4 * processor_count()
    start, counting, running, seen = threading.Barrier(clients), threading.Lock(), set[int](), set[int]()
    embed = builtin._embed

    def counted_embed(text: str, max_tokens: int) -> object:
        with counting:
            running.add(threading.get_ident())
            seen.add(len(running))
        try:
            return embed(text, max_tokens)
        finally:
            with counting:
                running.remove(threading.get_ident())

    def ask(number: int) -> None:
        start.wait()
        builtin.query(f"{number} " + "word " * 100)

    monkeypatch.setattr(builtin, "_embed", counted_embed)
    with ThreadPoolExecutor(clients) as threads:
        list(threads.map(ask, range(clients)))
    assert max(seen) <= processor_count()


@needs_model
def test_a_vector_does_not_depend_on_the_batch(builtin: Builtin) -> None:
    short = TEXTS[:4]
    together = builtin.documents(short)
    alone = np.concatenate([Builtin(INSTALLED).documents([text]) for text in reversed(short)])[::-1]
    np.testing.assert_array_equal(together, alone)
    np.testing.assert_array_equal(builtin.query("cats"), builtin.query("cats"))


@needs_model
def test_a_query_is_embedded_with_a_prefix(builtin: Builtin) -> None:
    text = "my cat is ill"
    as_question = builtin.query(text)
    assert float(as_question @ builtin.documents([text])[0]) < 0.99
    np.testing.assert_array_equal(as_question, builtin.documents([QUERY_PREFIX + text])[0])


@needs_model
def test_of_a_long_query_only_the_start_is_embedded(builtin: Builtin) -> None:
    start = "cats and dogs " * 60  # more than MAX_QUERY_TOKENS
    np.testing.assert_array_equal(builtin.query(start + "and an invoice " * 60), builtin.query(start))


@needs_model
@pytest.mark.parametrize(
    ("question", "paraphrase", "unrelated"),
    [
        ("Who looks after sick animals?", "The vet will treat our dog tomorrow.", "The invoice is due on Friday."),
        ("What do I drink in the morning?", "Espresso is how every day of mine begins.", "The museum is closed."),
        ("why is the query slow", "The table lacks an index, so it is scanned whole.", "She has two brothers."),
    ],
)
def test_a_paraphrase_is_nearer_than_something_unrelated(
    builtin: Builtin, question: str, paraphrase: str, unrelated: str
) -> None:
    near, far = builtin.documents([paraphrase, unrelated]) @ builtin.query(question)
    assert near > far + 0.02


def test_a_missing_model_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="memory-mcp models pull"):
        Builtin(tmp_path / "nowhere").documents(["anything"])
    with pytest.raises(Unavailable, match="memory-mcp models pull"):
        Builtin(tmp_path / "nowhere").query("anything")


@needs_model
@pytest.mark.parametrize("name", [model_files.MODEL_FILE, model_files.TOKENIZER_FILE])
@pytest.mark.parametrize("kept", [0, 1000, -1000])
def test_a_damaged_model_says_how_to_download_it_again(tmp_path: Path, name: str, kept: int) -> None:
    damage(tmp_path, name, kept)
    with pytest.raises(Unavailable, match="memory-mcp models pull"):
        Builtin(tmp_path).documents(["anything"])


@needs_model
@pytest.mark.parametrize("name", [model_files.MODEL_FILE, model_files.TOKENIZER_FILE])
def test_with_a_damaged_model_search_is_by_words_until_it_is_pulled_again(
    tmp_path: Path, short_timeouts: None, name: str
) -> None:
    models, file = tmp_path / "models", NotesFile(tmp_path)
    install_model(models)
    with server(tmp_path, embedder="builtin", models_dir=models) as notes:
        early = notes.create("The vet will treat our dog")
        eventually(file.is_done)
    damage(models, name, 1000)
    with server(tmp_path, embedder="builtin", models_dir=models) as notes:
        notes.create("Another dog was seen in the garden")
        answer = notes.call("memory_search", query="dog vet")
        assert answer["memories"][0]["id"] == early
        assert answer["memories"][0]["score_breakdown"]["cosine"] is None
        assert "memory-mcp models pull" in answer["notice"]
        install_model(models)
        eventually(file.is_done)
        assert notes.search("dog vet")[0]["score_breakdown"]["cosine"] > 0


def damage(folder: Path, name: str, kept: int) -> None:
    """Install the model with one truncated file."""
    install_model(folder)
    whole = (INSTALLED / name).read_bytes()
    (folder / name).unlink()
    (folder / name).write_bytes(whole[:kept])
