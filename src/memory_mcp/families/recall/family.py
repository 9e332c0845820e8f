"""The recall family. It searches the other families, which declare their texts."""

from collections.abc import Iterable
from functools import partial
from typing import Any

from memory_mcp.caller import Caller
from memory_mcp.engines.sqlite.database_kind import DatabaseKind
from memory_mcp.families.context import Context
from memory_mcp.families.family import Call, Family, OpenFamily
from memory_mcp.families.recall.index import RecallIndex
from memory_mcp.families.recall.operations import Recall
from memory_mcp.families.recall.tools import add_tools
from memory_mcp.families.texts import Groups, Match, TextQuery
from memory_mcp.services.search_index import POSTGRES, SCHEMA, SearchIndex
from memory_mcp.services.sessions import Session

RECALL_CACHE = DatabaseKind("recall", SCHEMA, "recall.db", is_cache=True, postgres=POSTGRES)


def recall_over(families: Iterable[Family[Any]]) -> Family[Recall]:
    """The recall family over these families."""
    recall = Family[Recall](
        name="recall",
        purpose="one search over everything; start here when you do not know where something is kept",
        main_tools=("recall_memories", "recall_open", "recall_overview"),
        errors="tool-result",
        uri_prefixes=(),
        open=_open,
        databases=(RECALL_CACHE,),
        is_confinable=True,
        is_listed_first=True,
        start=lambda recall: recall.worker.start(),
        stop=Recall.stop,
        housekeeping=lambda recall: recall.maintain(),
    )
    add_tools(recall, [family.name for family in families if family.groups or family.search])
    return recall


def _open(context: Context) -> Recall:
    """Recall over the enabled families, in their order."""
    search_index = SearchIndex(context.user_databases(RECALL_CACHE), context.embedders)
    index = RecallIndex(search_index)
    context.before_close(search_index.close)
    groups = {name: found for name, one in context.opened.items() if (found := _groups(one))}
    for name, one in context.opened.items():
        if name in groups and one.family.on_purge:
            one.family.on_purge(one.operations, partial(_purge, index, name, groups[name]))
    served = {name: one for name, one in context.opened.items() if name in context.served}
    return Recall(
        find={
            name: partial(_find, index if name in groups else None, one)
            for name, one in served.items()
            if name in groups or one.family.search
        },
        update_index={
            name: partial(index.update, family=name, groups=groups[name]) for name in served if name in groups
        },
        has_undated=index.has_undated,
        worker=search_index.worker,
        times=context.times,
        stop=index.stop,
        maintain=search_index.maintain,
        families=served,
    )


def _groups(one: OpenFamily[Any]) -> Groups | None:
    return partial(one.family.groups, one.operations) if one.family.groups else None


def _find(
    index: RecallIndex | None, one: OpenFamily[Any], caller: Caller, session: Session, wanted: TextQuery
) -> list[Match]:
    """The matches in the index of a family's texts, and those of the family's own search."""
    found = index.search(caller, one.family.name, wanted) if index else []
    if one.family.search:
        found += one.family.search(Call(one.operations, caller, session), wanted)
    return sorted(found, key=lambda match: -match.score)[: wanted.limit]


def _purge(index: RecallIndex, family: str, groups: Groups, caller: Caller, group: str) -> None:
    index.purge(caller.unconfined(), group, family=family, groups=groups)
