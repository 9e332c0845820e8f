"""SQL for the form of texts: which are questions, which come after one, and which begin with a label; and for what else
ranks them."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

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
    facts: Mapping[int, Sequence[Any]] = field(default_factory=dict)  # the columns of `Tables.facts`


def among(tx: Read, tables: Tables, seqs: Collection[int]) -> Forms:
    earlier, join, facts = "NULL", "", f", {tables.facts}" if tables.facts else ""
    if tables.before is not None:
        earlier, join = _ending("earlier"), f"LEFT JOIN {tables.texts} AS earlier ON {tables.before}"
    rows = tx.all(
        f"""
        SELECT later.seq, {_ending("later")}, {earlier}, substr(later.content, 1, {MAX_LABEL_CHARS + 1}){facts}
        FROM {tables.texts} AS later {join}
        WHERE later.seq IN (SELECT CAST(value AS BIGINT) FROM json_each(:seqs))
        """,
        {"seqs": json.dumps(list(seqs)), "max_bytes": MAX_QUESTION_BYTES},
    )
    return Forms(
        frozenset(seq for seq, ending, *_ in rows if ending and has_question_mark(ending)),
        frozenset(seq for seq, _, ending, *_ in rows if ending and has_question_mark(ending)),
        {seq: found for seq, _, _, beginning, *_ in rows if (found := label(beginning))},
        {seq: facts for seq, _, _, _, *facts in rows},
    )


def _ending(text: str) -> str:
    """The last bytes. NULL for a long text, which is no question. In PostgreSQL, to count characters takes ten times as
    long."""
    size = f"octet_length({text}.content)"
    last = f"substr(CAST({text}.content AS BLOB), {size} - {ENDING_BYTES - 1})"
    return f"CASE WHEN {size} <= :max_bytes THEN {last} END"
