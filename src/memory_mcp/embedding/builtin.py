"""The built-in embedder: snowflake-arctic-embed-s, int8, on the CPU through onnxruntime."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memory_mcp.embedding import model_files
from memory_mcp.embedding.model import RelevanceFloor, Space
from memory_mcp.errors import Unavailable

if TYPE_CHECKING:
    from memory_mcp.embedding.model import Floats

QUERY_PREFIX = "Represent this sentence for searching relevant passages: "  # without it, recall drops by half
MAX_TOKENS = 512
MAX_QUERY_TOKENS = 128  # about 90 words; 512 take a quarter of a second of a processor
FLOOR = RelevanceFloor(
    for_one_text=0.285, per_log_count=0.009, max_count=1000, background_share=0.5, max_short_bytes=800
)


class Builtin:
    kind = "builtin"
    model = model_files.MODEL
    dimensions = 384
    batch_size = 4  # small, because a process that exits during a batch would crash

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._loading = threading.Lock()
        self._model: tuple[Any, Any] | None = None

    def is_installed(self) -> bool:
        return model_files.are_installed(self._folder)

    def documents(self, texts: Sequence[str]) -> "Floats":
        import numpy as np

        # One by one: with int8 weights a vector would depend on the others in its batch, and batches are not faster.
        return np.stack([self._embed(text) for text in texts])

    def query(self, text: str) -> "Floats":
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
    options.log_severity_level = 3
    path = str(folder / model_files.MODEL_FILE)
    with _translate_errors():
        return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
