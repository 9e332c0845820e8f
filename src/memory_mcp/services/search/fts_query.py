"""Full-text queries that never fail, shared by every family.

A valid query in FTS5's syntax is searched unchanged. Any other query is a few plain words: without stop words, joined
with OR, because an implicit AND finds nothing for most natural questions.

FTS5's tokenizers find nothing inside Chinese, Japanese and Korean text and nothing inside camelCase. So text goes
into an index through `spaced` and `parts`, and queries are rewritten to match.
"""

import re
import threading
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import cache

import apsw

MAX_QUERY_CHARS = 4000  # the rest is ignored: a pasted document is not a query

_STOP_WORDS = """
    a about above after again all also am an and any are as at be because been before being between both but by can
    could did do does doing done down during each few for from further get got had has have having he her here hers
    him his how i if in into is it its itself just let me might more most must my no nor not now of off on once only
    or other our ours out over own please same shall she should so some such tell than that the their theirs them
    then there these they this those through to too under until up us very was we were what when where which while
    who whom whose why will with would you your yours
"""
STOP_WORDS = frozenset(_STOP_WORDS.split())

_CJK = (
    r"\u1100-\u11ff\u3040-\u30ff\u3105-\u312f\u3130-\u318f\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f"
    r"\uac00-\ud7ff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
_CJK_CHARACTER = re.compile(f"[{_CJK}]")
_CJK_RUN = re.compile(f"[{_CJK}]+")
# FTS5 treats newer emoji as letters. Digits in circles stay digits.
_PICTURE = re.compile("[\u2190-\u245f\u2500-\u2775\u2794-\u2bff\U0001f000-\U0001f0ff\U0001f10d-\U0001fbff]")
_WORD = re.compile(r"[^\W_]+")
_CONTRACTION = re.compile(
    r"\b(?:do|does|did|is|are|was|were|has|have|had|ca|could|should|would|wo|must|might|need|sha|ai)n['’]t\b"
    r"|(?<=\w)['’](?:s|re|ve|ll|d|m)\b",
    re.IGNORECASE,
)
_CAMEL_PART = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+|[^\x00-\x7f]+")
_QUOTED_OR_NOT = re.compile(r'"(?:[^"]|"")*"|[^"]+')
# Signs of an expression: quotes, a prefix star, operators in capitals, a column filter, a leading caret.
_SYNTAX = re.compile(r'["*]|\b(?:AND|OR|NOT|NEAR)\b|[\w}]\s*:|(?:^|\s)\^')
_EXCLUDED = re.compile(r'\bNOT\s+(?:"[^"]*"|[^\s()]+)')
_OPERATOR = re.compile(r"\b(?:AND|OR|NOT|NEAR)\b")

PLAIN_WORDS = "Nothing matches this FTS5 expression as a whole; these match some of its words."


def spaced(text: str) -> str:
    """Text for an index of plain words: every CJK character is a separate word, and pictures are removed."""
    text = _PICTURE.sub(" ", unicodedata.normalize("NFKC", text))
    return _CJK_CHARACTER.sub(r" \g<0> ", text)


def word_parts(text: str) -> str:
    """The parts of compound words: 'camelCase' gives 'camel Case', 'plain' gives nothing."""
    return " ".join(" ".join(pieces) for word in _WORD.findall(text) if len(pieces := _camel(word)) > 1)


def terms(query: str) -> list[str]:
    """The query's words as distinct FTS5 phrases, without stop words if others remain."""
    plain = _CONTRACTION.sub(" ", unicodedata.normalize("NFKC", query[:MAX_QUERY_CHARS]))
    found = list(dict.fromkeys(_phrases(plain)))
    return [phrase for phrase in found if phrase.strip('"').casefold() not in STOP_WORDS] or found


def any_of(phrases: Iterable[str]) -> str:
    return " OR ".join(phrases)


def reads_like_a_sentence(query: str) -> bool:
    """Whether it has stop words such as 'the', which an expression does not have. Operators do not count."""
    return any(
        word.casefold() in STOP_WORDS
        for word in _WORD.findall(query[:MAX_QUERY_CHARS])
        if word not in ("AND", "OR", "NOT")
    )


def has_cjk(text: str) -> bool:
    return _CJK_CHARACTER.search(text) is not None


def syntax(query: str, columns: Sequence[str]) -> str | None:
    """The query as an FTS5 expression over these columns, if it is a valid one; else None.

    CJK words become phrases of single characters, as `spaced` indexes them.
    """
    if len(query) > MAX_QUERY_CHARS or not _SYNTAX.search(query):
        return None
    expression = "".join(_phrased(piece) for piece in _QUOTED_OR_NOT.findall(query)) if has_cjk(query) else query
    return expression if _checker(tuple(columns)).accepts(expression) else None


def without_syntax(query: str, columns: Sequence[str]) -> str | None:
    """The plain words of an FTS5 expression with operators, without those after NOT; None if it is none. A phrase in
    quotes stays what it is."""
    return None if syntax(query, columns) is None else without_operators(query)


def without_operators(expression: str) -> str | None:
    """The same for a query that is known to be an expression."""
    if not _OPERATOR.search(expression) or '"' in expression:
        return None
    return _OPERATOR.sub(" ", _EXCLUDED.sub(" ", expression)).strip() or None


def _phrases(query: str) -> Iterator[str]:
    for word in _words(_CJK_RUN.sub(" ", query)):
        yield f'"{word}"'
        if len(pieces := _camel(word)) > 1:
            yield f'"{" ".join(pieces)}"'
    for run in _CJK_RUN.findall(query):
        # A question is one long run; a memory may have its pairs of characters.
        for start in range(max(1, len(run) - 1)):
            yield f'"{" ".join(run[start : start + 2])}"'


def _words(text: str) -> list[str]:
    """The text split at punctuation, symbols, spaces and control characters. FTS5 does the rest."""
    apart = (" " if unicodedata.category(c)[0] in "PSZ" or unicodedata.category(c) == "Cc" else c for c in text)
    return "".join(apart).split()


def _camel(word: str) -> list[str]:
    return _CAMEL_PART.findall(word)


def _phrased(piece: str) -> str:
    if piece.startswith('"'):
        return spaced(piece)
    return _CJK_RUN.sub(lambda run: '"' + " ".join(run.group()) + '"', piece)


class _Checker:
    """An empty index with the same columns, to check whether FTS5 accepts an expression."""

    def __init__(self, columns: tuple[str, ...]) -> None:
        self._lock = threading.Lock()
        self._connection = apsw.Connection(":memory:")
        self._connection.execute(f"CREATE VIRTUAL TABLE checked USING fts5({', '.join(columns)})")

    def accepts(self, expression: str) -> bool:
        with self._lock:
            try:
                self._connection.execute("SELECT 1 FROM checked WHERE checked MATCH ?", (expression,)).fetchall()
            except (apsw.SQLError, apsw.CorruptError, apsw.TooBigError):
                return False
        return True


@cache
def _checker(columns: tuple[str, ...]) -> _Checker:
    return _Checker(columns)
