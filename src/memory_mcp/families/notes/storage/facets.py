"""SQL of counts by property, for a list of notes that is filtered."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from memory_mcp.engines.transactions import Read
from memory_mcp.families.notes.list_model import Facets
from memory_mcp.families.notes.model import Filter
from memory_mcp.families.notes.storage.conditions import filter_condition, filter_values
from memory_mcp.text.time_spans import ANY_TIME

MAX_CHOICES = 100  # of a property


def facets(tx: Read, chosen: Filter, words: str, *, is_archived: bool) -> Facets:
    counted = _Counted(tx, words, is_archived)
    here = counted.groups(chosen, "namespace, client, source")
    return Facets(
        total=sum(notes for *_, notes in here),
        namespaces=_named(counted.groups(replace(chosen, namespace=None), "namespace") if chosen.namespace else here),
        tags=_named(counted.tags(chosen)),
        clients=_named(
            counted.groups(replace(chosen, client=None), "client")
            if chosen.client
            else [(client, notes) for _, client, _, notes in here]
        ),
        sources=_named(
            counted.groups(replace(chosen, source=None), "source")
            if chosen.source
            else [(source, notes) for _, _, source, notes in here]
        ),
        days=dict(counted.groups(replace(chosen, created=ANY_TIME), "substr(created_at, 1, 10)")),
    )


class _Counted:
    """Counts of live notes, or of archived ones."""

    def __init__(self, tx: Read, words: str, is_archived: bool) -> None:
        self._tx = tx
        self._words = words
        self._is_archived = is_archived

    def groups(self, chosen: Filter, columns: str) -> list[tuple[Any, ...]]:
        return self._tx.all(
            f"SELECT {columns}, count(*) FROM notes WHERE {self._fits(chosen)} GROUP BY {columns}", self._values(chosen)
        )

    def tags(self, chosen: Filter) -> list[tuple[Any, ...]]:
        """Without those that the server adds."""
        return self._tx.all(
            f"""
            SELECT max(tag), count(*) AS notes FROM note_tags
            WHERE origin IN ('user', 'inline') AND note_seq IN (SELECT seq FROM notes WHERE {self._fits(chosen)})
            GROUP BY tag_key ORDER BY notes DESC, tag_key LIMIT {MAX_CHOICES}
            """,
            self._values(chosen),
        )

    def _fits(self, chosen: Filter) -> str:
        return filter_condition(chosen, self._words, is_archived=self._is_archived)

    def _values(self, chosen: Filter) -> dict[str, Any]:
        return filter_values(self._tx, chosen, self._words)


def _named(rows: Iterable[tuple[Any, ...]]) -> dict[str, int]:
    """The choices with the most notes; each row begins with the name and ends with the number of notes."""
    found = Counter[str]()
    for row in rows:
        if row[0]:
            found[row[0]] += row[-1]
    return dict(sorted(found.items(), key=lambda one: (-one[1], one[0]))[:MAX_CHOICES])
