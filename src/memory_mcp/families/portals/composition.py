"""Creates the operations on portals from the settings."""

import os
from collections.abc import Callable
from pathlib import Path

from memory_mcp.changes import Changes
from memory_mcp.clock import Clock
from memory_mcp.engines.chdb.process import EngineRules
from memory_mcp.engines.clickhouse.address import ClickHouseAddress
from memory_mcp.engines.clickhouse.server import ClickHouseServer, check_driver
from memory_mcp.engines.transactions import UserDatabases
from memory_mcp.errors import Invalid
from memory_mcp.families.portals.folders import Engines
from memory_mcp.families.portals.limits import ImportLimits, TransferLimits
from memory_mcp.families.portals.operations import Portals
from memory_mcp.families.portals.server_portals import DatabaseLock, ServerEngines
from memory_mcp.settings import Settings
from memory_mcp.system.paths import expand_home


def create_portals(
    settings: Settings,
    folder_of: Callable[[str], Path],
    changes: Changes,
    clock: Clock,
    *,
    lock: DatabaseLock | None = None,
    journals: UserDatabases | None = None,
) -> Portals:
    """No file is opened before it is used, so that maintenance can work with damaged portals. `lock` is for portals on
    a ClickHouse server, if the servers in front of it share no data directory. Maintenance, which writes for no caller,
    needs no `journals`."""
    limits = {
        "max_execution_time": settings.portal_seconds,
        "limit": settings.portal_rows + 1,  # one more, to see whether there is more
        "max_memory_usage": settings.portal_memory,
        "max_threads": min(settings.portal_threads, os.cpu_count() or 1),
    }
    return Portals(
        folder_of,
        changes,
        clock,
        engines=_create_engines(settings, limits, lock),
        max_rows=settings.portal_rows,
        journals=journals,
        max_tokens=settings.portal_tokens,
        import_folders=[expand_home(name) for name in settings.import_dirs],
        export_folders=[expand_home(name) for name in settings.export_dirs],
        import_limits=_import_limits(settings),
        max_export_bytes=settings.export_bytes,
        export_quota=settings.export_quota,
        export_days=settings.export_days,
        transfers=TransferLimits(settings.server_transfers, settings.user_transfers),
        urls=settings.portal_urls,
        joins=settings.portal_joins,
    )


def _import_limits(settings: Settings) -> ImportLimits:
    return ImportLimits(
        file_bytes=settings.import_bytes,
        rows=settings.import_rows,
        expanded_bytes=settings.import_expanded_bytes,
        expansion=settings.import_expansion,
        memory_bytes=_import_memory(settings),
        seconds=settings.import_seconds,
    )


def _engine_rules(settings: Settings) -> EngineRules:
    return EngineRules(
        sandbox=settings.portal_sandbox,
        max_engines=settings.portal_engines,
        idle_s=settings.portal_engine_idle,
        max_queries=settings.portal_queries,
        max_query_wait_s=settings.portal_queue_seconds,
        max_export_s=settings.export_seconds,
        export_bytes_per_s=settings.export_rate,
        yields_when_busy=settings.transport == "http",
    )


def _create_engines(settings: Settings, limits: dict[str, int], lock: DatabaseLock | None) -> Engines:
    """Raises Unusable without the driver of a ClickHouse server, Invalid for settings that do not go together."""
    rules = _engine_rules(settings)
    if settings.portals_url is None:
        return Engines(limits, rules, settings.portal_user_memory)
    check_driver()
    if settings.portal_joins:
        raise Invalid(
            "portal_joins: queries over several portals are not possible with --portals-url yet.", field="portal_joins"
        )
    server = ClickHouseServer(ClickHouseAddress.parse(settings.portals_url), limits, rules)
    return ServerEngines(server, limits, rules, settings.portal_user_memory, lock)


def _import_memory(settings: Settings) -> int:
    """What an import may use: beside it, one query of its user fits."""
    beside_query = max(settings.portal_memory, settings.portal_user_memory - settings.portal_memory)
    return min(settings.import_memory, beside_query)
