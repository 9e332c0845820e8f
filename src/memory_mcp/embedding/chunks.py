"""Long texts in parts a model can read whole."""

import re

from memory_mcp.search import fts_query

MAX_CHARS = 1600  # characters: about 400 tokens of English, of the 512 a model reads
MAX_CJK_CHARS = 400  # where a character is a token
_ENDS = [re.compile(pattern) for pattern in (r"\n\s*\n", r"\n", r"(?<=[.!?。！？])\s*", r"\s+")]


def parts(text: str) -> list[tuple[int, str]]:
    """A text as (where it starts, part), cut where a paragraph, else a line, a sentence or a word ends."""
    longest = MAX_CJK_CHARS if fts_query.has_cjk(text) else MAX_CHARS
    found, start = [], 0
    while len(text) - start > longest:
        end = _end(text, start, longest)
        found.append((start, text[start:end]))
        start = end
    found.append((start, text[start:]))
    return [(at, part) for at, part in found if part.strip()] or [(0, text)]


def _end(text: str, start: int, longest: int) -> int:
    for pattern in _ENDS:
        # In the second half, so that no part is tiny.
        ends = [match.end() for match in pattern.finditer(text, start + longest // 2, start + longest)]
        if ends and ends[-1] > start:
            return ends[-1]
    return start + longest


def with_context(before: str, text: str) -> str:
    """A text together with what was written just before it, in one part."""
    longest = MAX_CJK_CHARS if fts_query.has_cjk(before + text) else MAX_CHARS
    own = text[: max(longest // 2, longest - len(before))]
    return f"{before[-(longest - len(own)) :]}\n{own}"
