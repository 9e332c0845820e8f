"""Removes secrets, and text that the user marked as private, before a text is stored.

detect-secrets and `secret_formats` recognise the secrets. Its detectors are used as patterns alone: nothing is verified
over a network. It is imported with the first text, because only a capture needs it.
"""

import re
from collections.abc import Iterable, Iterator
from functools import cache, partial
from typing import Any, cast

from memory_mcp.conversations import secret_formats

PRIVATE = "[private]"
MAX_LINE_CHARS = 4000  # of a line that is searched for secrets at once
OVERLAP_CHARS = 300  # of a long line that are searched again with what follows them
MIN_BARE_SECRET_CHARS = 6  # of a value without quotes

_PRIVATE_TAG = re.compile(r"<\s*(?:(/)\s*)?private\b[^<>]*>", re.IGNORECASE)
_PRIVATE_KEY = re.compile(r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----.*?(?:-----END [A-Z0-9 ]+-----|\Z)", re.DOTALL)
_PUTTY_KEY = re.compile(r"PuTTY-User-Key-File-\d.*?(?:Private-MAC: \S+|\Z)", re.DOTALL)
# Of detect-secrets, between a name and its value. It takes cubic time for a run of spaces; the other matches the same.
_SLOW_SEPARATOR = r"(?: *)(?:=|:|:=|=>| +|::)(?: *)"
_SEPARATOR = r"(?: *(?::=|=>|::|=|:) *| +)"
_NO_TOKEN = re.compile(r"[^\w+/=.~-]")
_VARIABLE = re.compile(r"[A-Za-z_]+(?:\.[A-Za-z_]+)+[\[(]?")  # such as process.env.API_KEY
_UNLIKELY = {"IPPublicDetector", "HexHighEntropyString", "Base64HighEntropyString", "PrivateKeyDetector"}
"""Detectors that are not used: addresses are no secrets, high entropy is that of every commit and path as well, and
private keys are left out as whole blocks."""


def redact(text: str) -> str:
    """The text without private parts, and with the kind of each secret in its place."""
    text = _without_private(text)
    for block in (_PRIVATE_KEY, _PUTTY_KEY):
        text = block.sub(_mark("Private Key"), text)
    return "".join(map(_redact_long_line, text.splitlines(keepends=True)))


def _without_private(text: str) -> str:
    """A private part may hold another one. One that is not closed goes on to the end."""
    kept, begin, depth = "", 0, 0
    for tag in _PRIVATE_TAG.finditer(text):
        if not tag[1]:
            kept += text[begin : tag.start()] + PRIVATE if depth == 0 else ""
            depth += 1
        elif depth > 0:
            depth, begin = depth - 1, tag.end()
    return kept + text[begin:] if depth == 0 else kept


def _redact_long_line(line: str) -> str:
    """In parts, so that the patterns stay fast. Each is searched with the end of the one before it: a name and its
    secret may be in two parts."""
    done, end = "", ""
    for piece in _pieces(line):
        redacted = _redact_line(end + piece)
        cut = max(0, len(redacted) - OVERLAP_CHARS)
        done, end = done + redacted[:cut], redacted[cut:]
    return done + end


def _pieces(line: str) -> Iterator[str]:
    """Parts of a long line, cut where no token can be."""
    while len(line) > MAX_LINE_CHARS:
        ends = [one.end() for one in _NO_TOKEN.finditer(line, 1, MAX_LINE_CHARS)]
        end = ends[-1] if ends else MAX_LINE_CHARS
        yield line[:end]
        line = line[end:]
    yield line


def _redact_line(line: str) -> str:
    for kind, pattern in _patterns():
        line = pattern.sub(_mark(kind), line)
    for secret in _named_secrets(line):
        line = line.replace(secret, _mark("Secret Keyword"))
    for kind, pattern, must_look_secret in _value_patterns():
        line = pattern.sub(partial(_marked, kind, must_look_secret), line)
    return secret_formats.RANDOM.sub(_marked_random, line)


def _marked(kind: str, must_look_secret: bool, found: re.Match[str]) -> str:
    """The match with its first group replaced."""
    value = found[1]
    if value.startswith("[secret:") or (must_look_secret and not _has_digits(value)):
        return found[0]
    start, end = found.span(1)
    return found[0][: start - found.start()] + _mark(kind) + found[0][end - found.start() :]


def _marked_random(found: re.Match[str]) -> str:
    return _mark("random text") if secret_formats.is_random(found[0]) else found[0]


def _mark(kind: str) -> str:
    return f"[secret: {kind}]"


@cache
def _patterns() -> list[tuple[str, re.Pattern[str]]]:
    from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class
    from detect_secrets.plugins.base import RegexBasedDetector

    further = [(kind, re.compile(pattern)) for kind, pattern in secret_formats.TOKENS.items()]
    known = [
        (str(detector.secret_type), re.compile(pattern.pattern.replace(_SLOW_SEPARATOR, _SEPARATOR), pattern.flags))
        for detector in cast(Iterable[Any], get_mapping_from_secret_type_to_class().values())
        if issubclass(detector, RegexBasedDetector) and detector.__name__ not in _UNLIKELY
        for pattern in detector().denylist
    ]
    return further + known


@cache
def _value_patterns() -> list[tuple[str, re.Pattern[str], bool]]:
    """With whether a value must look like a secret."""
    plain = [(kind, re.compile(one), False) for kind, one in secret_formats.PLAIN_VALUES.items()]
    return plain + [(kind, re.compile(one), True) for kind, one in secret_formats.WORDLIKE_VALUES.items()]


def _named_secrets(line: str) -> Iterator[str]:
    """Values of names such as password. One without quotes must look like a secret, since prose has such names, too."""
    from detect_secrets.plugins import keyword

    if not _keywords().search(line):
        return
    yield from filter(None, keyword.KeywordDetector().analyze_string(line))
    for pattern, group in keyword.CONFIG_DENYLIST_REGEX_TO_GROUP.items():
        for found in pattern.finditer(line):
            value = (found[group] or "").split(maxsplit=1)[:1]
            if value and not value[0].startswith("[secret:") and _looks_secret(value[0]):
                yield value[0].rstrip(".,;)")


def _looks_secret(value: str) -> bool:
    bare = value.rstrip(".,;:!?)")
    return len(value) >= MIN_BARE_SECRET_CHARS and not bare.isalpha() and not _VARIABLE.fullmatch(bare)


def _has_digits(value: str) -> bool:
    """Whether it is neither a word, nor a name of several words, nor a number."""
    return any(one.isdigit() for one in value) and any(one.isalpha() for one in value)


@cache
def _keywords() -> re.Pattern[str]:
    from detect_secrets.plugins import keyword

    return re.compile("|".join(keyword.DENYLIST), re.IGNORECASE)
