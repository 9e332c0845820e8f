"""SQL for the form of texts: which are questions, which come after one, and which begin with a label."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from memory_mcp.engines.transactions import Read
from memory_mcp.services.search.labels import MAX_LABEL_CHARS, label
from memory_mcp.services.search.questions import BLANKS, MAX_QUESTION_BYTES, QUESTION_MARKS
from memory_mcp.services.search_index.tables import Tables


@dataclass(frozen=True)
class Forms:
    """Of some texts."""

    questions: frozenset[int] = frozenset()
    answers: frozenset[int] = frozenset()  # that come after a question
    labels: Mapping[int, str] = field(default_factory=dict)  # of those that begin with one


def among(tx: Read, tables: Tables, seqs: Collection[int]) -> Forms:
    earlier, join = "NULL", ""
    if tables.before is not None:
        earlier, join = _last_character("earlier"), f"LEFT JOIN {tables.texts} AS earlier ON {tables.before}"
    rows = tx.all(
        f"""
        SELECT later.seq, {_last_character("later")}, {earlier}, substr(later.content, 1, {MAX_LABEL_CHARS + 1})
        FROM {tables.texts} AS later {join}
        WHERE later.seq IN (SELECT CAST(value AS BIGINT) FROM json_each(:seqs))
        """,
        {"seqs": json.dumps(list(seqs)), "blanks": BLANKS, "max_bytes": MAX_QUESTION_BYTES},
    )
    return Forms(
        frozenset(seq for seq, last, *_ in rows if last in QUESTION_MARKS),
        frozenset(seq for seq, _, last, _ in rows if last in QUESTION_MARKS),
        {seq: found for seq, *_, beginning in rows if (found := label(beginning))},
    )


def _last_character(text: str) -> str:
    """NULL for a long text, whose last character is not near."""
    content = f"rtrim({text}.content, :blanks)"
    short = f"octet_length({text}.content) <= :max_bytes"
    return f"CASE WHEN {short} THEN substr({content}, length({content})) END"
