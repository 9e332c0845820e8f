"""Long texts, split into chunks that fit a model's input."""

import re

from memory_mcp.services.search import fts_query

MAX_CHARS = 1600  # about 400 tokens of English, of the 512 that a model reads
MAX_CJK_CHARS = 400  # for text in which a character is a token
_ENDS = [re.compile(pattern) for pattern in (r"\n\s*\n", r"\n", r"(?<=[.!?。！？])\s*", r"\s+")]


def chunks(text: str) -> list[tuple[int, str]]:
    """(start, chunk) for each chunk of a text. It is split at the end of a paragraph, else of a line, a sentence or a
    word."""
    max_chars = MAX_CJK_CHARS if fts_query.has_cjk(text) else MAX_CHARS
    found, start = [], 0
    while len(text) - start > max_chars:
        end = _end(text, start, max_chars)
        found.append((start, text[start:end]))
        start = end
    found.append((start, text[start:]))
    return [(start, chunk) for start, chunk in found if chunk.strip()] or [(0, text)]


def _end(text: str, start: int, max_chars: int) -> int:
    for pattern in _ENDS:
        # Search the second half, so that no chunk is tiny.
        ends = [match.end() for match in pattern.finditer(text, start + max_chars // 2, start + max_chars)]
        if ends and ends[-1] > start:
            return ends[-1]
    return start + max_chars
