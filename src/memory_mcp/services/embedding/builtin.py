"""The built-in embedder: snowflake-arctic-embed-s, int8, on the CPU through onnxruntime."""

import os
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memory_mcp.errors import Unavailable
from memory_mcp.services.embedding import model_files
from memory_mcp.services.embedding.model import RelevanceFloor, Space
from memory_mcp.system.operating_system import lower_thread_priority

if TYPE_CHECKING:
    from memory_mcp.services.embedding.model import Floats

QUERY_PREFIX = "Represent this sentence for searching relevant passages: "  # without it, recall drops by half
MAX_TOKENS = 512
MAX_QUERY_TOKENS = 128  # about 90 words; 512 take a quarter of a second of a processor
HELPER_NICENESS = 5  # beyond that of the thread they help: they are for processors with nothing else to do
MEANINGLESS = (
    *("bxkq zvwt", "qqzjx", "wvurf skolp", "trelbon vashk", "yxcvb", "hjfgd lkmn", "plorvat", "gnufrid", "kkzzpp"),
    *("ombrelta quist", "ztrgh", "flimworb nax"),
)
FLOOR = RelevanceFloor(
    for_one_text=0.285,
    per_log_count=0.009,
    max_count=1000,
    background_share=0.5,
    max_short_bytes=800,
    meaningless=MEANINGLESS,
)


class Builtin:
    kind = "builtin"
    model = model_files.MODEL
    dimensions = 384
    batch_size = 8  # small, so that a stopping server waits for a few texts only

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._loading = threading.Lock()
        self._model: tuple[Any, Any] | None = None
        self._helpers: ThreadPoolExecutor | None = None
        self._query_slots = threading.BoundedSemaphore(processor_count())

    def is_installed(self) -> bool:
        return model_files.are_installed(self._folder)

    def documents(self, texts: Sequence[str]) -> "Floats":
        """One text at a time: with int8 weights a vector would depend on the others in its batch, and batches are not
        faster. Other processors help while they have nothing else to do."""
        import numpy as np

        waiting = deque(enumerate(texts))
        vectors: dict[int, Floats] = {}
        count = min(processor_count(), len(texts)) - 1
        helpers = [self._helper_pool().submit(self._embed_each, waiting, vectors) for _ in range(count)]
        self._embed_each(waiting, vectors)
        for helper in helpers:
            helper.result()
        return np.stack([vectors[number] for number in sorted(vectors)])

    def _embed_each(self, waiting: deque[tuple[int, str]], vectors: "dict[int, Floats]") -> None:
        while True:
            try:
                number, text = waiting.popleft()
            except IndexError:
                return
            vectors[number] = self._embed(text)

    def _helper_pool(self) -> ThreadPoolExecutor:
        with self._loading:
            if self._helpers is None:
                self._helpers = ThreadPoolExecutor(
                    max(1, processor_count() - 1), "embedding helper", lower_thread_priority, (HELPER_NICENESS,)
                )
            return self._helpers

    def query(self, text: str) -> "Floats":
        """As many at once as there are processors: ONNX Runtime keeps the memory of each that has run beside others."""
        with self._query_slots:
            return self._embed(QUERY_PREFIX + text, MAX_QUERY_TOKENS)

    def _embed(self, text: str, max_tokens: int = MAX_TOKENS) -> "Floats":
        import numpy as np

        tokenizer, session = self._load()
        tokens = tokenizer.encode(text).ids
        if len(tokens) > max_tokens:
            tokens[max_tokens - 1 : -1] = []  # the last one marks the end
        ids = np.array([tokens], dtype=np.int64)
        inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        vector: Floats = session.run(None, inputs)[0][0, 0]  # the first token's state represents the text
        return vector / np.linalg.norm(vector)

    def _load(self) -> tuple[Any, Any]:
        with self._loading:
            if self._model is None:
                if not self.is_installed():
                    raise Unavailable("The built-in model is not installed. Run `memory-mcp models pull` once.")
                self._model = _tokenizer(self._folder), _session(self._folder)
            return self._model


def processor_count() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def floor_of(space: Space) -> RelevanceFloor | None:
    """None for the vectors of another model, which was not measured: then every text may be related to a query."""
    return FLOOR if (space.kind, space.model) == (Builtin.kind, Builtin.model) else None


@contextmanager
def _translate_errors() -> Iterator[None]:
    """For a call that reads a model file: both libraries raise Exception itself, or direct subclasses of it."""
    try:
        yield
    except Exception as exc:
        raise Unavailable("The built-in model cannot be loaded. `memory-mcp models pull` downloads it again.") from exc


def _tokenizer(folder: Path) -> Any:
    from tokenizers import Tokenizer

    with _translate_errors():
        tokenizer = Tokenizer.from_file(str(folder / model_files.TOKENIZER_FILE))
    tokenizer.no_padding()
    tokenizer.enable_truncation(MAX_TOKENS)
    return tokenizer


def _session(folder: Path) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.enable_mem_pattern = False  # it would keep a plan for each length of text, and more memory than without
    options.log_severity_level = 3
    path = str(folder / model_files.MODEL_FILE)
    with _translate_errors():
        return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
