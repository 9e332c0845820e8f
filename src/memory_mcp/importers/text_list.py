"""A list of memories that an assistant printed: one per line, with the date in brackets.

Both vendors recommend this way to export memories (claude.com/import-memory requests
`[date saved, if available] - memory content`), and it is the only complete list of ChatGPT's memories.
"""

import re
from collections.abc import Iterator

from memory_mcp.errors import Invalid
from memory_mcp.importers import bounds
from memory_mcp.importers.archives import Member
from memory_mcp.importers.model import FoundNote, ImportProblem

SUFFIXES = (".txt", ".md", ".markdown")
MAX_FILE_BYTES = 16 * 1024 * 1024
_BULLET = re.compile(r"^\s*(?:[-*+•]|\d+[.)])\s+")
_DATE = re.compile(r"^\[([^\]]{0,40})\]\.?\s*[-–—:]?\s*")


def dated(line: str) -> tuple[str | None, str]:
    """The date and the text of a line like `1. [2024-05-01]. Lives in Lisbon.`; number, date and marks are optional."""
    text = _BULLET.sub("", line).strip()
    found = _DATE.match(text)
    if found is None:
        return None, text
    date = found[1].strip()
    is_date = bounds.moment(date) is not None
    is_unknown = not date or date.casefold() in ("unknown", "no date", "n/a", "date unknown")
    return (date if is_date else None, text[found.end() :].strip()) if is_date or is_unknown else (None, text)


def read(member: Member, **noted: str) -> Iterator[FoundNote | ImportProblem]:
    """A memory for each line that is not a heading or the fence of a code block."""
    with member.open() as stream:
        data = stream.read(MAX_FILE_BYTES + 1)
    try:
        lines = data.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as exc:
        raise Invalid(f"{member.name} is not UTF-8 text.") from exc
    if len(data) > MAX_FILE_BYTES:
        raise Invalid(f"{member.name} is over {MAX_FILE_BYTES // 1024 // 1024} MB. Is it a list of memories?")
    for number, line in enumerate(lines, start=1):
        date, text = dated(line)
        if text and not re.match(r"^(?:#|```|---)", text):
            yield bounds.note(f"line {number}", text, id_=bounds.text_id(text), created_at=date, metadata=noted)
