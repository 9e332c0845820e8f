"""The table with a portal's metadata."""

from collections.abc import Mapping, Sequence

from memory_mcp.engines.portal_engine import PortalEngine
from memory_mcp.families.portals.model import METADATA
from memory_mcp.families.portals.storage.rows import insert, replace_rows

_METADATA_COLUMNS = """(
    key String,
    value String,
    created_at DateTime64(3) DEFAULT now64(3),
    updated_at DateTime64(3) DEFAULT now64(3)
) ENGINE = MergeTree() ORDER BY key"""


def create_metadata(engine: PortalEngine, values: Mapping[str, str]) -> None:
    engine.run(f"CREATE TABLE IF NOT EXISTS {METADATA} {_METADATA_COLUMNS}")
    known = metadata(engine)
    new = [{"key": key, "value": value} for key, value in values.items() if key not in known]
    if new:
        insert(engine, METADATA, new)


def metadata(engine: PortalEngine) -> dict[str, str]:
    rows = engine.rows(f"SELECT key, argMax(value, updated_at) AS value FROM {METADATA} GROUP BY key")
    return {row["key"]: row["value"] for row in rows}


def foreign_metadata(engine: PortalEngine, database: str, keys: Sequence[str], max_chars: int) -> dict[str, str]:
    """These values of the metadata in a file from elsewhere, whose table may have any size and any types. Values
    that are longer or no text are left out. Raises EngineError for a table of another form."""
    rows = engine.rows(
        f"""
        SELECT key, argMax(given, updated_at) AS value
        FROM (SELECT toString(key) AS key, toString(value) AS given, updated_at FROM {database}.{METADATA})
        WHERE key IN {{keys:Array(String)}} AND isNotNull(given) AND isValidUTF8(assumeNotNull(given))
            AND lengthUTF8(assumeNotNull(given)) <= {{most:UInt32}}
        GROUP BY key
        """,
        {"keys": list(keys), "most": max_chars},
    )
    return {row["key"]: row["value"] for row in rows}


def set_metadata(engine: PortalEngine, values: Mapping[str, str], gone: Sequence[str] = ()) -> None:
    """Set these values and drop others, in one step. Nothing of the former values stays on the disk."""
    replace_rows(
        engine,
        METADATA,
        f"""
        SELECT key, argMax(given.value, (is_new, given.updated_at)) AS value, min(given.created_at) AS created_at,
            max(given.updated_at) AS updated_at
        FROM (
            SELECT key, value, created_at, updated_at, 0 AS is_new FROM {METADATA}
            UNION ALL
            SELECT key, value, now64(3), now64(3), 1 FROM system.one
            ARRAY JOIN {{keys:Array(String)}} AS key, {{values:Array(String)}} AS value
        ) AS given
        WHERE key NOT IN {{gone:Array(String)}} GROUP BY key
        """,
        {"keys": list(values), "values": list(values.values()), "gone": list(gone)},
    )
