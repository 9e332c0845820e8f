import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_mcp.engines.files.json_stream import JsonStream


class Slow(io.BytesIO):
    """A stream that gives a few bytes at a time, as a pipe or an unpacked file may."""

    def __init__(self, data: bytes, at_once: int) -> None:
        super().__init__(data)
        self.at_once = at_once

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(self.at_once)


def items(data: bytes, at_once: int = 1) -> list[Any]:
    stream = JsonStream(Slow(data, at_once), json.JSONDecoder())
    stream.take("[")
    found: list[Any] = []
    while stream.peek() != "]":
        found.append(stream.value())
        if stream.take(",]") == "]":
            break
    return found


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(st.lists(VALUES, max_size=5), st.integers(1, 40), st.booleans())
def test_values_are_the_same_wherever_the_text_is_cut(values: list[Any], at_once: int, is_ascii: bool) -> None:
    text = json.dumps(values, ensure_ascii=is_ascii)
    if "\\ud" not in text.lower():  # half a pair has no UTF-8
        assert items(text.encode(errors="surrogatepass"), at_once) == values


def test_a_byte_order_mark_is_skipped() -> None:
    assert items(b"\xef\xbb\xbf[1]") == [1]


@pytest.mark.parametrize("text", [b'[1,{"a":', b"[nope]", b"[1 2]", b'["\xff"]', b"[" + b"9" * 5000 + b"]"])
def test_broken_text_is_a_value_error(text: bytes) -> None:
    with pytest.raises(ValueError, match=r".*"):
        items(text)


def test_a_value_that_is_nested_too_deep_is_refused() -> None:
    with pytest.raises(RecursionError):
        items(b"[" * 100_001, at_once=1 << 20)
