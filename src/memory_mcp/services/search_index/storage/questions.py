"""SQL for which texts are questions, and which come after one."""

import json
from collections.abc import Collection
from dataclasses import dataclass

from memory_mcp.engines.transactions import Read
from memory_mcp.services.search.questions import BLANKS, MAX_QUESTION_BYTES, QUESTION_MARKS
from memory_mcp.services.search_index.tables import Tables


@dataclass(frozen=True)
class Questions:
    """Of some texts."""

    questions: frozenset[int] = frozenset()
    answers: frozenset[int] = frozenset()  # that come after a question


def among(tx: Read, tables: Tables, seqs: Collection[int]) -> Questions:
    earlier, join = "NULL", ""
    if tables.before is not None:
        earlier, join = _last_character("earlier"), f"LEFT JOIN {tables.texts} AS earlier ON {tables.before}"
    rows = tx.all(
        f"""
        SELECT later.seq, {_last_character("later")}, {earlier} FROM {tables.texts} AS later {join}
        WHERE later.seq IN (SELECT CAST(value AS BIGINT) FROM json_each(:seqs))
        """,
        {"seqs": json.dumps(list(seqs)), "blanks": BLANKS, "max_bytes": MAX_QUESTION_BYTES},
    )
    return Questions(
        frozenset(seq for seq, last, _ in rows if last in QUESTION_MARKS),
        frozenset(seq for seq, _, last in rows if last in QUESTION_MARKS),
    )


def _last_character(text: str) -> str:
    """NULL for a long text, whose last character is not near."""
    content = f"rtrim({text}.content, :blanks)"
    short = f"octet_length({text}.content) <= :max_bytes"
    return f"CASE WHEN {short} THEN substr({content}, length({content})) END"
