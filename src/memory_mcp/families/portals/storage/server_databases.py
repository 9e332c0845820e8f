"""The databases of portals on a ClickHouse server. The comment of one lists its portal."""

from memory_mcp.engines.chdb.parameters import literal
from memory_mcp.engines.portal_engine import PortalEngine


def is_listed(server: PortalEngine, database: str) -> bool:
    sql = "SELECT 1 FROM system.databases WHERE name = {name:String} AND comment <> ''"
    return bool(server.rows(sql, {"name": database}))


def list_database(server: PortalEngine, database: str, comment: str) -> None:
    """List a portal from now on."""
    server.run(f"ALTER DATABASE {database} MODIFY COMMENT {literal(comment)}")


def listed_databases(server: PortalEngine, prefix: str) -> list[str]:
    """The comments of the databases whose names begin so."""
    sql = "SELECT comment FROM system.databases WHERE startsWith(name, {prefix:String}) AND comment <> ''"
    return [row["comment"] for row in server.rows(sql, {"prefix": prefix})]


def data_version(engine: PortalEngine) -> str:
    """Changes with everything that is written to the portal."""
    (row,) = engine.rows(
        "SELECT concat(toString(count()), ' ', toString(groupBitXor(cityHash64(uuid, name, modification_time)))) AS v "
        "FROM system.parts WHERE active AND database = currentDatabase()"
    )
    return str(row["v"])


def changed_at(engine: PortalEngine) -> int:
    """When something was last written to the portal, in seconds since 1970."""
    (row,) = engine.rows(
        """
        SELECT toUInt32(max(at)) AS at FROM (
            SELECT toUnixTimestamp(modification_time) AS at FROM system.parts
            WHERE active AND database = currentDatabase()
            UNION ALL
            SELECT toUnixTimestamp(metadata_modification_time) FROM system.tables WHERE database = currentDatabase()
        )
        """
    )
    return int(row["at"])
