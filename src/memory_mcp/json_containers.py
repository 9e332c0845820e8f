"""How many objects and lists a JSON text has, without parsing it: two bytes of it can take a hundred of memory."""

import re
from itertools import islice

MAX_CONTAINERS = 110_000  # in one message: portal_write takes 100,000 records

# Up to the next `[` or `{` outside of strings, or to the end. Matches at every position and never backtracks.
_UP_TO_A_CONTAINER = re.compile(rb'[^"\[{]*+(?:"[^"\\]*+(?:\\.?[^"\\]*+)*+"?[^"\[{]*+)*+(?:([\[{])|\Z)', re.DOTALL)


def count_brackets(text: bytes | bytearray) -> int:
    """At least as many as there are objects and lists: brackets in strings count, too. Takes a moment only."""
    return text.count(b"[") + text.count(b"{")


def has_too_many(text: bytes | bytearray, max_containers: int = MAX_CONTAINERS) -> bool:
    """Whether a JSON text in UTF-8 has more objects and lists than that."""
    if count_brackets(text) <= max_containers:
        return False
    begun = (found for found in _UP_TO_A_CONTAINER.finditer(text) if found[1])
    return any(islice(begun, max_containers, None))
