"""SQL for what the rank of notes depends on, beside their texts."""

import json
from collections.abc import Collection
from dataclasses import dataclass

from memory_mcp.engines.transactions import Read


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


def of_notes(tx: Read, seqs: Collection[int]) -> dict[int, RankingFacts]:
    rows = tx.all(
        """
        SELECT seq, id, importance, session_id, superseded_by IS NOT NULL FROM notes
        WHERE seq IN (SELECT CAST(value AS BIGINT) FROM json_each(:seqs))
        """,
        {"seqs": json.dumps(list(seqs))},
    )
    return {seq: RankingFacts(id_, importance, session, bool(old)) for seq, id_, importance, session, old in rows}
