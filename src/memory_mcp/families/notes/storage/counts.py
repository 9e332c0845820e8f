"""SQL for counts that triggers maintain at each write, so that reading them takes as long for 100,000 notes as for 100.
Only expired notes are counted when they are read."""

from collections import Counter
from collections.abc import Collection

from memory_mcp.engines.transactions import Read
from memory_mcp.families.notes.model import SYSTEM_TAGS, Counted, Filter, Totals
from memory_mcp.families.notes.storage import index
from memory_mcp.families.notes.storage.lists import tag_counts
from memory_mcp.families.notes.storage.notes import inside

TOP = 10
_EXPIRED = "notes.archived = 0 AND notes.expires_at <= :now"


def totals(tx: Read, within: str | None) -> Totals:
    """For a caller who is confined to a namespace, its notes are counted one by one."""
    by_namespace, by_client = Counter[str](), Counter[str]()
    for namespace, client, notes in _groups(tx, within):
        by_namespace[namespace] += notes
        by_client[client] += notes
    del by_client[""]
    system = {*SYSTEM_TAGS, *by_client, *(f"ns/{namespace}" for namespace in by_namespace)}
    return Totals(
        notes=by_namespace.total(),
        unarchived=count_unarchived(tx, within),
        namespaces=sum(notes > 0 for notes in by_namespace.values()),
        embedded=index.count_embedded(tx, within),
        waiting=index.count_waiting(tx, within),
        top_tags=_top_tags(tx, system) if within is None else _top_tags_inside(tx, within, system),
        top_clients=_top(by_client),
    )


def by_namespace(tx: Read, within: str | None) -> Counter[str]:
    """How many notes each namespace has, without those that have expired."""
    found = Counter[str]()
    for namespace, _, notes in _groups(tx, within):
        found[namespace] += notes
    return found


def count_unarchived(tx: Read, within: str | None = None) -> int:
    """How many notes are not archived, including expired ones."""
    return tx.number(
        f"SELECT coalesce(sum(notes), 0) FROM note_counts WHERE {inside(within, 'note_counts')}", {"within": within}
    )


def _groups(tx: Read, within: str | None) -> list[tuple[str, str, int]]:
    """(namespace, client, number of notes). Negative numbers are expired notes, to be subtracted."""
    return tx.all(
        f"""
        SELECT namespace, client, notes FROM note_counts WHERE {inside(within, "note_counts")}
        UNION ALL
        SELECT namespace, coalesce(client, ''), -count(*) FROM notes WHERE {_EXPIRED} AND {inside(within)} GROUP BY 1, 2
        """,
        {"now": tx.precise_stamp, "within": within},
    )


def _top_tags(tx: Read, system: Collection[str]) -> list[Counted]:
    """Without those that the server adds to every note."""
    # CROSS keeps the order: the few notes first, then each one's tags.
    expired = tx.all(
        f"""
        SELECT tag_key, count(*) FROM notes CROSS JOIN note_tags ON note_tags.note_seq = notes.seq
        WHERE {_EXPIRED} GROUP BY tag_key
        """,
        {"now": tx.precise_stamp},
    )
    # Each tag that expired notes have may fall out of the top, and no other one can come in before the next of these.
    rows = tx.all(
        "SELECT tag_key, tag, notes FROM tag_counts ORDER BY notes DESC, tag_key LIMIT :limit",
        {"limit": TOP + len(expired) + len(system)},
    )
    gone: dict[str, int] = dict(expired)
    left = sorted((gone.get(key, 0) - notes, key, tag) for key, tag, notes in rows if tag not in system)
    return [Counted(tag, -notes) for notes, _, tag in left[:TOP] if notes]


def _top_tags_inside(tx: Read, within: str, system: Collection[str]) -> list[Counted]:
    counted = tag_counts(tx, Filter(within=within), 1, TOP + len(system))
    return [Counted(found.tag, found.count) for found in counted if found.tag not in system][:TOP]


def _top(counted: Counter[str]) -> list[Counted]:
    left = sorted((-notes, name) for name, notes in counted.items() if notes)
    return [Counted(name, -notes) for notes, name in left[:TOP]]
