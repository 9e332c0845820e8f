"""A reader for the records of one long array in a JSON file, one by one."""

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import IO, Any

from memory_mcp.engines.files.json_stream import JsonStream
from memory_mcp.errors import Invalid
from memory_mcp.importers.archives import DAMAGE

MAX_DIGITS = 1000  # of a whole number; Python itself refuses those with more than 4,300


class Truncated(Exception):
    """The text is not JSON from here on; the part before is valid."""


@dataclass(frozen=True)
class JsonRecord:
    number: int  # from 1
    value: Any
    siblings: Mapping[str, Any]  # the fields of the object before the array


def records(stream: IO[bytes], keys: Collection[str]) -> Iterator[JsonRecord]:
    """The items of the array in the file, or of the array under one of these keys of the object in the file.

    Raises Invalid before the first record if there is no such array; Truncated where the text ends or is not JSON.
    """
    try:
        yield from _records(JsonStream(stream, json.JSONDecoder(parse_int=_parse_integer)), keys)
    except (ValueError, RecursionError, *DAMAGE) as exc:
        raise Truncated from exc


def _records(text: JsonStream, keys: Collection[str]) -> Iterator[JsonRecord]:
    opening = text.peek()
    if opening == "[":
        yield from _items(text, {})
        return
    if not opening:
        raise Truncated
    if opening != "{":
        raise Invalid("The file is neither a JSON array nor a JSON object.")
    siblings: dict[str, Any] = {}
    is_found = False
    for key in _keys(text):
        if key in keys and text.peek() == "[":
            is_found = True
            yield from _items(text, siblings)
        elif not is_found:
            siblings[key] = text.value()
        else:
            text.value()
    if not is_found:
        raise Invalid(f"The JSON object has no list called {' or '.join(sorted(keys))}.")


def _items(text: JsonStream, siblings: Mapping[str, Any]) -> Iterator[JsonRecord]:
    text.take("[")
    if text.peek() == "]":
        text.take("]")
        return
    number = 0
    while True:
        number += 1
        yield JsonRecord(number, text.value(), siblings)
        if text.take(",]") == "]":
            return


def _keys(text: JsonStream) -> Iterator[str]:
    """The keys of an object; after each, its value must be read."""
    text.take("{")
    if text.peek() == "}":
        return
    while True:
        key = text.value()
        if not isinstance(key, str):
            raise Truncated
        text.take(":")
        yield key
        if text.take(",}") == "}":
            return


def _parse_integer(digits: str) -> int | str:
    return int(digits) if len(digits) <= MAX_DIGITS else digits
