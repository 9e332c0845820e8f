"""A long text in pages."""

import re

from memory_mcp.errors import Invalid

MAX_PAGE_BYTES = 40_000  # about 10,000 tokens of English
MIN_FILLED = 0.9  # the share of a page after which it may end early, at the end of a line or a word

_CONTINUES = re.compile(r"[\u0300-\u036f\u200d\ufe00-\ufe0f\u20d0-\u20ff\U0001f3fb-\U0001f3ff]")
"""Characters that belong to the one before them: accents, joiners, colours of emoji."""


def page(text: str, offset: int) -> tuple[str, int | None]:
    """The page from a character on, and where the next one starts; None at the end. All pages together are the text."""
    if offset > len(text):
        raise Invalid(f"offset: the text has {len(text)} characters. Start again without an offset.", field="offset")
    part = text[offset : offset + MAX_PAGE_BYTES].encode()[:MAX_PAGE_BYTES].decode(errors="ignore")
    end = offset + len(part)
    if end == len(text):
        return part, None
    size = _boundary(part, text[end])
    return part[:size], offset + size


def _boundary(part: str, following: str) -> int:
    """Where to end a page: after a line, else after a word, else where no character is torn from its accents."""
    first = int(len(part) * MIN_FILLED)
    for mark in ("\n", " "):
        if (found := part.rfind(mark, first)) > 0:
            return found + 1
    end = len(part)
    while end > first and (_CONTINUES.match(following) or part[end - 1] == "\u200d"):
        end -= 1
        following = part[end]
    return max(end, 1)
