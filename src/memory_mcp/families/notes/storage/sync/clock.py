"""SQL for this node: its hub, and its hybrid logical clock."""

from memory_mcp.engines.transactions import Read, Write
from memory_mcp.families.notes.storage.sync.outbox import OUTBOX
from memory_mcp.services.sync.model import ReplicaState


def state(tx: Read) -> ReplicaState:
    node, hub, ticket, synced_at, error = tx.all("SELECT node, hub, ticket, synced_at, error FROM sync_node")[0]
    to_send = tx.number(f"SELECT count(*) FROM {OUTBOX} WHERE synced.enabled")
    return ReplicaState(node, hub, ticket, synced_at, error, to_send)


def set_ticket(tx: Write, ticket: str) -> None:
    tx.all("UPDATE sync_node SET ticket = :ticket", {"ticket": ticket})


def set_ended(tx: Write, error: str | None) -> None:
    tx.all(
        "UPDATE sync_node SET error = :error, synced_at = CASE WHEN :error IS NULL THEN :now ELSE synced_at END",
        {"error": error, "now": tx.precise_stamp},
    )


def set_hub(tx: Write, hub: str | None) -> None:
    """Set the hub. A new hub has none of the stamps that this node exchanged with the former one."""
    tx.all(
        """
        UPDATE sync_node SET exchanged_ms = iif(hub IS :hub, exchanged_ms, 0),
            hub = :hub, ticket = NULL, error = NULL, synced_at = NULL
        """,
        {"hub": hub},
    )


def renew_node(tx: Write) -> None:
    tx.all("UPDATE sync_node SET node = lower(hex(randomblob(8)))")


# The clock


def set_arriving(tx: Write, arriving: bool) -> None:
    """While incoming changes are written, the triggers do not stamp them."""
    tx.all("UPDATE sync_node SET arriving = :arriving", {"arriving": arriving})


def observe(tx: Write, stamp: str) -> None:
    """Advance the clock: all local changes from now on get later stamps."""
    ms, counter, _ = stamp.split(":")
    tx.all(
        """
        UPDATE sync_node SET ms = :ms, counter = :counter
        WHERE ms < :ms OR (ms = :ms AND counter < :counter)
        """,
        {"ms": int(ms), "counter": int(counter)},
    )


def set_exchanged(tx: Write, stamp: str) -> None:
    """Record a stamp that the hub may have: it was sent there, even if the answer was lost, or came from there."""
    tx.all("UPDATE sync_node SET exchanged_ms = max(exchanged_ms, :ms)", {"ms": int(stamp.split(":")[0])})


def times(tx: Read) -> tuple[int, int, int]:
    """In milliseconds: the latest stamp, the latest that the hub may have, and the offset of the hub's clock."""
    row = tx.all("SELECT ms, exchanged_ms, offset_ms FROM sync_node")[0]
    return row[0], row[1], row[2]


def set_offset(tx: Write, offset_ms: int) -> None:
    tx.all("UPDATE sync_node SET offset_ms = :offset", {"offset": offset_ms})


def lower_stamps(tx: Write, latest_ms: int, now_ms: int) -> None:
    """Replace stamps later than `latest_ms` by a stamp of now, which is later than all other stamps and all that the
    hub may have. No stamp that the hub may have is later than `latest_ms`."""
    values = {"latest": f"{latest_ms:015d}:99999", "now": now_ms}
    tx.all(
        """
        UPDATE sync_node SET counter = 99999, ms = max(:now, exchanged_ms, coalesce((
            SELECT max(CAST(stamp AS INTEGER)) FROM (
                SELECT stamp FROM sync_fields UNION ALL SELECT stamp FROM sync_tombstones
            ) WHERE stamp <= :latest
        ), 0))
        """,
        values,
    )
    tx.all("UPDATE sync_node SET ticks = ticks + 1")
    tx.all("UPDATE sync_fields SET stamp = (SELECT stamp FROM sync_stamp) WHERE stamp > :latest", values)
    tx.all(
        """
        INSERT INTO sync_outbox (note_id) SELECT id FROM sync_tombstones WHERE stamp > :latest
        ON CONFLICT (note_id) DO NOTHING
        """,
        values,
    )
    tx.all("UPDATE sync_tombstones SET stamp = (SELECT stamp FROM sync_stamp) WHERE stamp > :latest", values)
