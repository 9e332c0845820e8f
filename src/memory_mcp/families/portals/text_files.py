"""Files of texts, before the engine reads them: whether they are text, in which form, and what records JSON holds."""

import json
import math
import re
import unicodedata
from codecs import IncrementalDecoder, getincrementaldecoder
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any, NoReturn

from memory_mcp.engines.files.json_stream import JsonStream
from memory_mcp.errors import Invalid
from memory_mcp.families.portals.model import Record

CHUNK_BYTES = 1024 * 1024
BATCH_ROWS = 2000
MAX_LEVELS = 99  # of lists and objects in a record, which is one itself: as many as portal_write accepts

_ESCAPED = re.compile(
    r"\\(?:u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|.)", re.DOTALL
)
_LEVEL = {"{": 1, "[": 1, "}": -1, "]": -1}
_NO_LEVEL = re.compile(r"[^][{}]+")
_BETWEEN = re.compile(r"[\s,\[\]]*")


def normalise(path: Path, *, is_json: bool) -> None:
    """Put a file's text into NFC. Raises Invalid if it is not UTF-8, or nested deeper than a record may be.

    Quotes, commas and ends of lines are part of no character that NFC would put together: what it does to the whole it
    does to every value.
    """
    levels, is_normal = _Levels(), True
    for piece in _pieces(path):
        if is_json:
            levels.add(piece)
        is_normal = is_normal and unicodedata.is_normalized("NFC", _plain(piece, is_json=is_json))
    if is_normal:
        return
    target = path.with_name(f"{path.stem}-nfc{path.suffix}")
    try:
        with target.open("w", encoding="utf-8", newline="") as writing:
            for piece in _pieces(path):
                writing.write(unicodedata.normalize("NFC", _plain(piece, is_json=is_json)))
        target.replace(path)
    finally:
        target.unlink(missing_ok=True)


def _plain(piece: str, *, is_json: bool) -> str:
    """With the characters that escapes stand for, where there are escapes."""
    return _ESCAPED.sub(_unescaped, piece) if is_json and "\\u" in piece else piece


def _pieces(path: Path) -> Iterator[str]:
    """A file's text, never parted within a character as people see it, nor within an escape of JSON."""
    decoder, number = getincrementaldecoder("utf-8")(), 1
    kept: list[str] = []
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            text = _decoded(decoder, chunk, number)
            number += chunk.count(b"\n")
            end = max(map(text.rfind, "\n, "))  # a text in JSON may go on behind it: see _Levels
            if end > 0:
                yield "".join([*kept, text[:end]])
                kept, text = [], text[end:]
            kept.append(text)
    yield "".join([*kept, _decoded(decoder, b"", number, is_last=True)])


def _decoded(decoder: IncrementalDecoder, chunk: bytes, number: int, *, is_last: bool = False) -> str:
    """A part of a file that starts in line `number`."""
    try:
        return decoder.decode(chunk, is_last)
    except UnicodeDecodeError as exc:
        bad = number + exc.object[: exc.start].count(b"\n")
        raise Invalid(f"source: line {bad} is not UTF-8. Save the file as UTF-8.", field="source") from exc


def _unescaped(found: re.Match[str]) -> str:
    """The character that an escape stands for, if NFC may make another of it."""
    first, second, single = found.groups()
    if first:
        return chr(0x10000 + ((int(first, 16) - 0xD800) << 10) + int(second, 16) - 0xDC00)
    code = int(single, 16) if single else 0
    is_plain = code < 0xA0 and not chr(code).isalnum() and chr(code) not in "<=>"
    return found[0] if is_plain or 0xD800 <= code < 0xE000 else chr(code)


class _Levels:
    """How deep JSON is nested, piece by piece."""

    def __init__(self) -> None:
        self._depth = 0
        self._in_text = False
        self._is_array: bool | None = None

    def add(self, text: str) -> None:
        if self._is_array is None and (start := text.lstrip("\ufeff \t\r\n")):
            self._is_array = start.startswith("[")
        if "\\" in text:
            text = _ESCAPED.sub("", text)
        parts = text.split('"')
        outside = "".join(parts[self._in_text :: 2])
        self._in_text ^= len(parts) % 2 == 0
        levels = list(accumulate(map(_LEVEL.__getitem__, _NO_LEVEL.sub("", outside)), initial=self._depth))
        self._depth = levels[-1]
        if max(levels) > MAX_LEVELS + bool(self._is_array):
            raise Invalid(f"source: a record is nested more than {MAX_LEVELS} deep. Flatten it.", field="source")


def batches(path: Path) -> Iterator[list[Record]]:
    """The records of a JSON file, an array or one after the other, some at a time."""
    batch: list[Record] = []
    for record in _records(path):
        batch.append(record)
        if len(batch) == BATCH_ROWS:
            yield batch
            batch = []
    if batch:
        yield batch


def _records(path: Path) -> Iterator[Record]:
    decoder = json.JSONDecoder(strict=False, parse_constant=_no_number, parse_float=_number, object_pairs_hook=_object)
    number = 1
    with path.open("rb") as file:
        text = JsonStream(file, decoder)
        while True:
            text.skip(_BETWEEN)
            if not text.peek():
                return
            try:
                record = text.value()
            except ValueError as exc:
                raise Invalid(
                    f"source: this cannot be read as json. Record {number}: {_reason(exc)}.", field="source"
                ) from exc
            if not isinstance(record, dict):
                raise Invalid(
                    f"source: record {number} is not an object. Give each as {{column: value}}.", field="source"
                )
            yield record
            number += 1


def _reason(exc: ValueError) -> str:
    if isinstance(exc, _RecordRefused):
        return str(exc)
    if isinstance(exc, json.JSONDecodeError):
        return exc.msg[0].lower() + exc.msg[1:]
    return "a number has too many digits"


class _RecordRefused(ValueError): ...


def _object(fields: list[tuple[str, Any]]) -> Record:
    made = dict(fields)
    if len(made) < len(fields):
        names = [name for name, _ in fields]
        raise _RecordRefused(f"it has {next(name for name in names if names.count(name) > 1)!r} twice")
    return made


def _no_number(name: str) -> NoReturn:
    raise _RecordRefused(f"{name} is not a number. Give null")


def _number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise _RecordRefused(f"{text[:40]} is too large a number")
    return value
