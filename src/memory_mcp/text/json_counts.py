"""How much a JSON text holds, without parsing it: two bytes of it can take a hundred of memory."""

import re
from itertools import islice

MAX_CONTAINERS = 110_000  # in one message: portal_write takes 100,000 records


def _up_to(beginnings: bytes) -> re.Pattern[bytes]:
    """Up to the next of these bytes outside of strings, or to the end. Matches at every position, never backtracks."""
    other = rb'[^"%s]*+' % beginnings
    return re.compile(
        other + rb'(?:"[^"\\]*+(?:\\.?[^"\\]*+)*+"?' + other + rb")*+(?:([%s])|\Z)" % beginnings, re.DOTALL
    )


_UP_TO_A_CONTAINER = _up_to(rb"\[{")
_UP_TO_A_VALUE = _up_to(rb"\[{,")


def count_brackets(text: bytes | bytearray) -> int:
    """At least as many as there are objects and lists: brackets in strings count, too. Takes a moment only."""
    return text.count(b"[") + text.count(b"{")


def has_too_many_containers(text: bytes | bytearray, max_containers: int = MAX_CONTAINERS) -> bool:
    """Whether a JSON text in UTF-8 has more objects and lists than that."""
    if count_brackets(text) <= max_containers:
        return False
    return _count(_UP_TO_A_CONTAINER, text, max_containers + 1) > max_containers


def count_values(text: bytes, max_values: int) -> int:
    """About how many values a JSON text in UTF-8 has; at most one more than `max_values`."""
    return 1 + _count(_UP_TO_A_VALUE, text, max_values)


def _count(up_to: re.Pattern[bytes], text: bytes | bytearray, max_count: int) -> int:
    return sum(1 for found in islice(up_to.finditer(text), max_count) if found[1])
