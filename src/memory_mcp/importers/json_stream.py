"""JSON files larger than memory: the records of one long array, one after the other."""

import codecs
import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import IO, Any

from memory_mcp.errors import Invalid
from memory_mcp.importers.archives import DAMAGE

CHUNK = 1 << 16
MAX_RECORD_CHARS = 256 * 1024 * 1024  # characters of one record
MAX_DIGITS = 1000  # of a whole number; Python itself refuses those with more than 4,300
_SPACE = " \t\n\r"


class BrokenOff(Exception):
    """The text is no JSON from here on; what came before was fine."""


@dataclass(frozen=True)
class JsonRecord:
    number: int  # from 1
    value: Any
    beside: Mapping[str, Any]  # what stood in the object before the array


def records(stream: IO[bytes], keys: Collection[str]) -> Iterator[JsonRecord]:
    """The items of the array that the file is, or that the object in it has under one of these keys.

    Raises Invalid if it is neither, before the first record; BrokenOff where the text ends too early or is no JSON.
    """
    text = _Text(stream)
    opening = text.peek()
    if opening == "[":
        yield from _items(text, {})
        return
    if opening != "{":
        raise Invalid("The file is no JSON array and no JSON object.")
    beside: dict[str, Any] = {}
    found = False
    for key in _keys(text):
        if key in keys and text.peek() == "[":
            found = True
            yield from _items(text, beside)
        elif not found:
            beside[key] = text.value()
        else:
            text.value()
    if not found:
        raise Invalid(f"The JSON object has no list called {' or '.join(sorted(keys))}.")


def _items(text: "_Text", beside: Mapping[str, Any]) -> Iterator[JsonRecord]:
    text.take("[")
    if text.peek() == "]":
        text.take("]")
        return
    number = 0
    while True:
        number += 1
        yield JsonRecord(number, text.value(), beside)
        if text.take(",]") == "]":
            return


def _keys(text: "_Text") -> Iterator[str]:
    """The keys of an object; after each, its value must be taken."""
    text.take("{")
    if text.peek() == "}":
        return
    while True:
        key = text.value()
        if not isinstance(key, str):
            raise BrokenOff
        text.take(":")
        yield key
        if text.take(",}") == "}":
            return


class _Text:
    """The characters of a stream, as many at a time as the next value needs."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._read: Callable[[int], bytes] = stream.read
        self._decode = codecs.getincrementaldecoder("utf-8-sig")()
        self._text = ""
        self._at = 0
        self._is_over = False
        self._json = json.JSONDecoder(parse_int=_parse_integer)

    def peek(self) -> str:
        """The next character that is no space. Raises BrokenOff at the end."""
        while True:
            while self._at < len(self._text):
                if self._text[self._at] not in _SPACE:
                    return self._text[self._at]
                self._at += 1
            if not self._more(CHUNK):
                raise BrokenOff

    def take(self, wanted: str) -> str:
        found = self.peek()
        if found not in wanted:
            raise BrokenOff
        self._at += 1
        return found

    def value(self) -> Any:
        """The next whole value. What has been looked at doubles with each try, so that no character is seen often."""
        self.peek()
        size = CHUNK
        while True:
            try:
                value, end = self._json.raw_decode(self._text, self._at)
            except (json.JSONDecodeError, RecursionError) as exc:
                if len(self._text) - self._at > MAX_RECORD_CHARS or not self._more(size):
                    raise BrokenOff from exc
                size *= 2
                continue
            if end == len(self._text) and self._more(size):  # a number may go on
                continue
            self._at = end
            return value

    def _more(self, size: int) -> bool:
        if self._is_over:
            return False
        try:
            chunk = self._read(size)
            self._is_over = not chunk
            text = self._decode.decode(chunk, self._is_over)
        except (UnicodeDecodeError, *DAMAGE) as exc:
            self._is_over = True
            raise BrokenOff from exc
        self._text = self._text[self._at :] + text
        self._at = 0
        return bool(chunk)


def _parse_integer(digits: str) -> int | str:
    return int(digits) if len(digits) <= MAX_DIGITS else digits
