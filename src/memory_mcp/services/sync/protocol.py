"""Limits and codes that nodes and hubs share."""

import zlib
from typing import Any

from memory_mcp.clock import instant
from memory_mcp.text.names import MAX_NAMESPACE_CHARS

MAX_RECORDS = 200  # in one push or pull
MAX_AHEAD_MS = 60_000  # of a stamp, relative to the hub's clock
CLOCK_AHEAD = "clock_ahead"
FORKED = "node_forked"
OTHER_SECRET = "other_secret"  # noqa: S105  # an error code

MAX_RECORD_BYTES = 12 * 1024 * 1024  # as JSON: 1 MiB of text, which grows when escaped or sealed, and metadata
MAX_PAGE_BYTES = 4_000_000  # of records in one answer, unless a single record is larger
MAX_ANSWER_BYTES = 24 * 1024 * 1024  # decompressed
MAX_RECORD_VALUES = 600_000  # as `json_counts.count_values` counts: metadata of 1 MiB has at most 524,288
MAX_PAGE_VALUES = 400_000  # of records in one answer, unless a single record has more
MAX_ANSWER_VALUES = MAX_PAGE_VALUES + MAX_RECORD_VALUES  # also of a push: a value takes up to 200 bytes of memory
MAX_CURSOR = 2**53
MIN_HUB_TIME, MAX_HUB_TIME = "2000-01-01T00:00:00.000Z", "2199-12-31T23:59:59.999Z"  # any other clock is broken
MAX_STAMP_MS = int(instant(MAX_HUB_TIME).timestamp() * 1000) + MAX_AHEAD_MS


def unpack(unpacker: Any, packed: bytes, max_bytes: int) -> bytes:
    """At most so many bytes of a gzip body; `unpacker.unconsumed_tail` has what is left of `packed`. Raises zlib.error,
    also for bytes after the end of the gzip data: zlib would collect all of them."""
    unpacked: bytes = unpacker.decompress(packed, max_bytes)
    if unpacker.unused_data:
        raise zlib.error("bytes follow the gzip data")
    return unpacked


def is_namespace(name: object) -> bool:
    return isinstance(name, str) and 0 < len(name) <= MAX_NAMESPACE_CHARS and not {",", "\n"} & set(name)


def printable(text: object, max_characters: int) -> str:
    """An untrusted text, safe to show: one line, no control characters, limited length."""
    shown = "".join(character if character.isprintable() else " " for character in str(text)[: max_characters + 1])
    return shown if len(shown) <= max_characters else shown[: max_characters - 1] + "…"
