"""JSON values from a stream that may be larger than memory. Why not ijson: docs/decisions/0021."""

import codecs
import json
import re
from typing import IO, Any

CHUNK_BYTES = 64 * 1024
MAX_VALUE_CHARS = 256 * 1024 * 1024
MAX_LITERAL_CHARS = 16  # characters that mean something only together, like -Infinity

_SPACE = re.compile(r"[ \t\r\n]*")


class JsonStream:
    """The values of a UTF-8 text, each read whole. No more of the text is in memory than the next value needs.

    Errors of the stream, and UnicodeDecodeError, are raised as they are.
    """

    def __init__(self, stream: IO[bytes], decoder: json.JSONDecoder) -> None:
        self._stream = stream
        self._json = decoder
        self._utf8 = codecs.getincrementaldecoder("utf-8-sig")()
        self._text = ""
        self._at = 0
        self._is_over = False

    def peek(self) -> str:
        """The next character that is not a space; empty at the end."""
        self.skip(_SPACE)
        return self._text[self._at : self._at + 1]

    def skip(self, between: re.Pattern[str]) -> None:
        """Skip what matches. The pattern must match character by character, and also nothing."""
        while True:
            if found := between.match(self._text, self._at):
                self._at = found.end()
            if self._at < len(self._text) or not self._read_more():
                return

    def take(self, wanted: str) -> str:
        """The next character, which must be one of these. Raises ValueError if it is another."""
        found = self.peek()
        if not found or found not in wanted:
            raise ValueError(f"expected one of {wanted}")
        self._at += 1
        return found

    def value(self) -> Any:
        """The next value. Raises ValueError if there is none, and RecursionError if it is nested too deep."""
        self.skip(_SPACE)
        while True:
            try:
                value, end = self._json.raw_decode(self._text, self._at)
            except json.JSONDecodeError as exc:
                if not self._may_be_cut(exc) or not self._read_more():
                    raise
                continue
            is_cut = len(self._text) - end < MAX_LITERAL_CHARS and self._text[end - 1] not in '}]"'
            if is_cut and self._read_more():  # a number may go on: 2, then .5
                continue
            self._at = end
            return value

    def _may_be_cut(self, exc: json.JSONDecodeError) -> bool:
        """Whether a value that cannot be read may only lack the rest of it."""
        is_near_end = exc.pos > len(self._text) - MAX_LITERAL_CHARS or exc.msg.startswith("Unterminated")
        return is_near_end and len(self._text) - self._at < MAX_VALUE_CHARS

    def _read_more(self) -> bool:
        """Twice as much as there is, so that no character is parsed often. False at the end."""
        if self._is_over:
            return False
        chunk = self._stream.read(max(CHUNK_BYTES, len(self._text) - self._at))
        self._is_over = not chunk
        more = self._utf8.decode(chunk, self._is_over)  # raises if the text ends within a character
        if chunk:
            self._text, self._at = self._text[self._at :] + more, 0
        return not self._is_over
