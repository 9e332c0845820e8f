"""The tokenizer of the word indexes."""

import threading
from functools import cache

import apsw


class _Tokenizer(threading.local):
    """One per thread."""

    def __init__(self) -> None:
        self._connection = apsw.Connection(":memory:")
        self.tokenize = self._connection.fts5_tokenizer("porter", ["unicode61", "remove_diacritics", "2"])
        self.split = self._connection.fts5_tokenizer("unicode61")


@cache
def _tokenizer() -> _Tokenizer:
    return _Tokenizer()


def tokens(text: bytes) -> list[str]:
    """The stems of a text's words, in order."""
    return _tokenizer().tokenize(  # type: ignore[return-value]  # the stub knows the other form alone
        text, apsw.FTS5_TOKENIZE_DOCUMENT, None, include_offsets=False, include_colocated=False
    )


def plain_tokens(text: bytes) -> list[str]:
    """A text's words as FTS5's default tokenizer has them, in order."""
    return _tokenizer().split(  # type: ignore[return-value]  # the stub knows the other form alone
        text, apsw.FTS5_TOKENIZE_DOCUMENT, None, include_offsets=False, include_colocated=False
    )


def located_tokens(text: bytes) -> list[tuple[int, int, str]]:
    """(start, end, stem) of each word, in bytes."""
    return _tokenizer().tokenize(text, apsw.FTS5_TOKENIZE_DOCUMENT, None, include_colocated=False)  # type: ignore[return-value]  # not in the stub
