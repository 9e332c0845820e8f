"""What a note's markdown says to the machine: its #tags and [[wikilinks]]. What stands in code is not meant."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_inline import StateInline
    from markdown_it.token import Token

LONGEST_TITLE = 300
LONGEST_TAG = 128

# A # after a letter is part of a word or an address; a number alone (#12) names an issue.
_TAG = re.compile(r"(?<![\w&/#])#(?=\w*[^\W\d])(\w[\w/-]*)")
_HEADING_MARKS = re.compile(r"^[#>*+\s-]+")


@dataclass(frozen=True)
class Marks:
    tags: tuple[str, ...] = ()
    links: tuple[str, ...] = ()  # titles, each once


def marks(content: str) -> Marks:
    """The #tags and [[Titles]] of a body in the order they stand there."""
    if "#" not in content and "[[" not in content:
        return Marks()
    tags: dict[str, None] = {}
    links: dict[str, None] = {}
    for token in _inline(_parser().parse(content)):
        if token.type == "wikilink":
            links.setdefault(token.content)
        elif token.type == "text":
            tags.update(dict.fromkeys(tag.rstrip("/-") for tag in _TAG.findall(token.content)))
    return Marks(tuple(tag for tag in tags if len(tag) <= LONGEST_TAG), tuple(links))


def first_line(content: str) -> str:
    """The first line that says something, without its heading marks: a title for a note that was given none."""
    for line in content.splitlines():
        if said := _HEADING_MARKS.sub("", line).strip():
            return said[:LONGEST_TITLE].rstrip()
    return content.strip()[:LONGEST_TITLE]


def _inline(tokens: "list[Token]") -> "Iterator[Token]":
    for token in tokens:
        inside_address = False
        for child in token.children or ():
            if child.type in ("link_open", "link_close"):
                inside_address = child.type == "link_open" and child.markup == "autolink"
            elif not inside_address:
                yield child


def _wikilink(state: "StateInline", silent: bool) -> bool:
    """markdown-it rule: [[Title]] and [[Title|label]] on one line."""
    start = state.pos + 2
    if not state.src.startswith("[[", state.pos):
        return False
    end = state.src.find("]]", start, min(state.posMax, start + 2 * LONGEST_TITLE))
    inside = state.src[start:end] if end > start else ""
    title = " ".join(inside.partition("|")[0].split())
    if not title or len(title) > LONGEST_TITLE or "\n" in inside or "[[" in inside:
        return False
    if not silent:
        state.push("wikilink", "", 0).content = title
    state.pos = end + 2
    return True


@cache
def _parser() -> "MarkdownIt":
    from markdown_it import MarkdownIt  # at the first note with marks: a starting server has none

    parser = MarkdownIt("commonmark").disable(["emphasis", "image"])  # they hide nothing we look for
    parser.inline.ruler.before("link", "wikilink", _wikilink)
    return parser
