"""Parts of statements that all modules share."""

import json
import struct
from collections.abc import Sequence
from typing import Any

from memory_mcp.engines.texts import WordColumn, WordTable
from memory_mcp.engines.transactions import Packed
from memory_mcp.families.vault.model import MemoryScope

SCOPES: tuple[MemoryScope, ...] = ("session", "vault")
_ENCODER = json.JSONEncoder(ensure_ascii=False)  # json.dumps would make one for every list
OWN_ROWS = {"session": "session_id = :session_id", "vault": "TRUE"}
"""By scope, the condition for the rows that the caller's session may see."""

_SPEC_COLUMNS = (WordColumn("key", "A"), WordColumn("content", "B"), WordColumn("tags", "C"))
# A word in the key counts twice, a part of a camelCase word half.
_WORD_COLUMNS = (WordColumn("key", "A", weight=2.0), *_SPEC_COLUMNS[1:], WordColumn("parts", "D", weight=0.5))
SPEC_TEXTS = {scope: WordTable(f"{scope}_fts", _SPEC_COLUMNS, is_stemmed=False, has_triggers=True) for scope in SCOPES}
"""By scope, the index of the specification."""
WORDS = {scope: WordTable(f"{scope}_words", _WORD_COLUMNS) for scope in SCOPES}
"""By scope, the index of plain words."""
COLUMNS = tuple(column.name for column in _SPEC_COLUMNS)


def packed(vector: Sequence[float]) -> Packed:
    """float32, little-endian, as the spec stores it. Raises OverflowError for a number float32 cannot hold."""
    return Packed(struct.pack(f"<{len(vector)}f", *vector))


def unpacked(vector: bytes) -> tuple[float, ...]:
    return struct.unpack(f"<{len(vector) // 4}f", vector)


def tagged(scope: MemoryScope, tags: Sequence[str], id_: str = "id") -> str:
    """The condition that a memory has all of :tags."""
    if not tags:
        return "TRUE"
    return f"""{id_} IN (
        SELECT memory_id FROM {scope}_tags WHERE tag IN (SELECT value FROM json_each(:tags))
        GROUP BY memory_id HAVING count(*) = :tag_count
    )"""


def where(scope: MemoryScope, tags: Sequence[str], id_: str = "id") -> str:
    """The caller's own memories with all of :tags. Empty when that is all of them, so that SQLite counts fast."""
    conditions = [OWN_ROWS[scope]] if scope == "session" else []
    conditions += [tagged(scope, tags, id_)] if tags else []
    return f"WHERE {' AND '.join(conditions)}" if conditions else ""


def tag_values(tags: Sequence[str]) -> dict[str, Any]:
    return {"tags": to_json(tags), "tag_count": len(tags)}


def parse_tags(text: str) -> list[str]:
    """The tags in a JSON array; none where another program wrote something else."""
    try:
        tags = json.loads(text)
    except ValueError:
        return []
    return [tag for tag in tags if isinstance(tag, str)] if isinstance(tags, list) else []


def to_json(values: Sequence[Any]) -> str:
    return _ENCODER.encode(list(values))
