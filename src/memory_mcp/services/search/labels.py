"""The label that a text may begin with: who says it (`Ana: I moved`), or what it is about (`Backups: every night`)."""

import re

from memory_mcp.services.search.fts_query import MAX_QUERY_CHARS, STOP_WORDS, spaced

MAX_LABEL_CHARS = 40
_WIDE_COLON = "\uff1a"
_WORD = re.compile(r"[^\W_]+")


def label(text: str) -> str:
    """What stands before the first colon of a text, in the same line; empty if that is no label."""
    beginning, colon, _ = text[: MAX_LABEL_CHARS + 1].lstrip().replace(_WIDE_COLON, ":").partition(":")
    return beginning if colon and "\n" not in beginning else ""


def words(text: str) -> frozenset[str]:
    """The words of a text. Chinese and Japanese have no spaces: each of their characters is a word, as in the index."""
    return frozenset(word.casefold() for word in _WORD.findall(spaced(text[:MAX_QUERY_CHARS])))


def is_in_query(label_words: frozenset[str], query_words: frozenset[str]) -> bool:
    """Whether a query has all words of a label. A label that has only words such as 'what' is in no query."""
    return label_words <= query_words and not label_words <= STOP_WORDS
