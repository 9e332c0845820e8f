"""The #tags and [[wikilinks]] in a note's markdown, except in code."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_inline import StateInline
    from markdown_it.token import Token

MAX_TITLE_CHARS = 300
MAX_TAG_CHARS = 128
MAX_TAGS = 64  # of one body

# A # inside a word or an address is not a tag, and a number alone (#12) names an issue.
_TAG = re.compile(r"""(?<![^\s(\[{"'_*~>,;:–—-])#([^\s#.,;:!?()\[\]{}<>"'`*|\\@=&%$^~+\x00-\x1f\ufffd]+)""")
_TARGET = re.compile(r"\]\([^()\s]*\)")  # the target of a [link](target)
_LINE_MARKS = re.compile(r"^(?:(?:#{1,6}|[>*+-]|\d{1,9}[.)])\s+)+")


@dataclass(frozen=True)
class Marks:
    tags: tuple[str, ...] = ()
    links: tuple[str, ...] = ()  # titles, each once


def marks(content: str) -> Marks:
    """The #tags and [[Titles]] of a body, in order."""
    if "#" not in content and "[[" not in content:
        return Marks()
    tags: dict[str, None] = {}
    links: dict[str, None] = {}
    for token in _inline(_parser().parse(content)):
        if token.type == "wikilink":
            links.setdefault(token.content)
        elif token.type == "text":
            text = _TARGET.sub("]", token.content)
            tags.update(dict.fromkeys(tag.strip("/-_") for tag in _TAG.findall(text)))
    return Marks(tuple(filter(_is_tag, tags))[:MAX_TAGS], tuple(links))


def _is_tag(text: str) -> bool:
    return len(text) <= MAX_TAG_CHARS and any(character.isalpha() for character in text)


def first_line(content: str) -> str:
    """The first line with text, without the mark of a heading, quote or list: the title of a note without one."""
    for line in content.splitlines():
        text = _LINE_MARKS.sub("", line.strip())
        if text.strip("#>*+-"):
            return text[:MAX_TITLE_CHARS].rstrip()
    return content.strip()[:MAX_TITLE_CHARS]


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
    end = state.src.find("]]", start, min(state.posMax, start + 2 * MAX_TITLE_CHARS))
    inside = state.src[start:end] if end > start else ""
    title = " ".join(inside.partition("|")[0].split())
    if not title or len(title) > MAX_TITLE_CHARS or "\n" in inside or "[[" in inside:
        return False
    if not silent:
        state.push("wikilink", "", 0).content = title
    state.pos = end + 2
    return True


@cache
def _parser() -> "MarkdownIt":
    from markdown_it import MarkdownIt  # on demand: it slows down the start of a server

    # Emphasis and images hide no marks. Links do, but parsing them takes 20 s in a mebibyte of brackets.
    parser = MarkdownIt("commonmark").disable(["emphasis", "image", "link"])
    parser.core.ruler.disable("text_join")  # so that escaped characters stay separate from text
    parser.inline.ruler.before("link", "wikilink", _wikilink)
    return parser
