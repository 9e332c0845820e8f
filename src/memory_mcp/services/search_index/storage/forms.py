"""SQL for the form of texts: which are questions, which come after one, and which begin with a label."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from memory_mcp.engines.transactions import Read
from memory_mcp.services.search.labels import MAX_LABEL_CHARS, label
from memory_mcp.services.search.questions import ENDING_BYTES, MAX_QUESTION_BYTES, has_question_mark
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
        earlier, join = _ending("earlier"), f"LEFT JOIN {tables.texts} AS earlier ON {tables.before}"
    rows = tx.all(
        f"""
        SELECT later.seq, {_ending("later")}, {earlier}, substr(later.content, 1, {MAX_LABEL_CHARS + 1})
        FROM {tables.texts} AS later {join}
        WHERE later.seq IN (SELECT CAST(value AS BIGINT) FROM json_each(:seqs))
        """,
        {"seqs": json.dumps(list(seqs)), "max_bytes": MAX_QUESTION_BYTES},
    )
    return Forms(
        frozenset(seq for seq, ending, *_ in rows if ending and has_question_mark(ending)),
        frozenset(seq for seq, _, ending, *_ in rows if ending and has_question_mark(ending)),
        {seq: found for seq, *_, beginning in rows if (found := label(beginning))},
    )


def _ending(text: str) -> str:
    """The last bytes. NULL for a long text, which is no question. In PostgreSQL, to count characters takes ten times as
    long."""
    size = f"octet_length({text}.content)"
    last = f"substr(CAST({text}.content AS BLOB), {size} - {ENDING_BYTES - 1})"
    return f"CASE WHEN {size} <= :max_bytes THEN {last} END"
