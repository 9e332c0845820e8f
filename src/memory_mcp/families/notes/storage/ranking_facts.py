"""SQL for what the rank of notes depends on, beside their texts."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memory_mcp.engines.transactions import Read

COLUMNS = "later.id, later.importance, later.session_id, later.superseded_by IS NOT NULL"


def importances(tx: Read, seqs: Collection[int]) -> dict[int, float]:
    rows = tx.all(
        "SELECT seq, importance FROM notes WHERE seq IN (SELECT CAST(value AS BIGINT) FROM json_each(:seqs))",
        {"seqs": json.dumps(list(seqs))},
    )
    return dict(rows)


@dataclass(frozen=True)
class RankingFacts:
    """What the rank of one note depends on."""

    id: str
    importance: float
    session_id: str | None  # that it was written in
    is_superseded: bool


def of_rows(rows: Mapping[int, Sequence[Any]], seqs: Collection[int]) -> dict[int, RankingFacts]:
    """Of these notes, from rows with `COLUMNS`."""
    return {
        seq: RankingFacts(id_, importance, session, bool(old))
        for seq, (id_, importance, session, old) in rows.items()
        if seq in seqs
    }
