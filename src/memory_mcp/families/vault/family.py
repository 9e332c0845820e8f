"""The vault family: how to open it, and its functions for recall, Home and references."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from memory_mcp.caller import Caller
from memory_mcp.clock import instant, precise_stamp
from memory_mcp.families.context import Context
from memory_mcp.families.family import Call, Family
from memory_mcp.families.texts import Match, TextQuery
from memory_mcp.families.vault import references, resources
from memory_mcp.families.vault.model import MemoryQuery, session_uri
from memory_mcp.families.vault.operations import Vault
from memory_mcp.families.vault.schema import VAULT_FILE
from memory_mcp.services.search import ranking, snippets
from memory_mcp.services.search.text_facts import TextFacts

if TYPE_CHECKING:
    from memory_mcp.families.maintenance import FamilyMaintenance


def _open(context: Context) -> Vault:
    vault = Vault(
        context.user_databases(VAULT_FILE), context.sessions, context.changes, dimensions=context.settings.embedding_dim
    )
    context.before_close(vault.index_merge.merge)
    return vault


def _counts(vault: Vault, caller: Caller) -> dict[str, int]:
    return {"memories": vault.count(caller)}


def _search(call: Call[Vault], wanted: TextQuery) -> Iterator[Match]:
    """The scratchpad of this session, by its words: recall's index has no copies of it. It has no list by time."""
    if not wanted.query:
        return
    scratchpad = MemoryQuery(wanted.query, "session", wanted.tags, limit=wanted.limit)
    for hit in call.operations.search(call.caller, call.session, scratchpad).results:
        snippet = snippets.excerpt(hit.content, wanted.query)
        score = ranking.score(None, hit.relevance, ranking.DEFAULT_IMPORTANCE)
        facts = TextFacts(hit.created_at, hit.updated_at)
        if wanted.created.is_whole or precise_stamp(instant(hit.created_at)) in wanted.created:
            yield Match(session_uri(call.session.id), hit.key, snippet, score, None, hit.relevance, facts)


def _load_maintenance() -> "FamilyMaintenance[Vault]":
    from memory_mcp.families.vault.maintenance import MAINTENANCE  # not needed at the start of a server

    return MAINTENANCE


vault = Family[Vault](
    name="vault",
    purpose="facts under a key, kept for good (scope 'vault') or as this session's scratchpad (scope 'session')",
    main_tools=("commit_memory", "search_memories", "prune_memory", "set_session_id"),
    errors="json-rpc",
    uri_prefixes=("memory://vault", "memory://session/"),
    open=_open,
    maintenance=_load_maintenance,
    databases=(VAULT_FILE,),
    spells_out_answers=True,
    spells_out_bounds=True,
    templates=resources.TEMPLATES,
    list_resources=resources.list_page,
    read_resource=resources.read,
    subscription_uri=resources.subscription_uri,
    complete=resources.complete,
    prepare=lambda vault, users: vault.open_local(),
    counts=_counts,
    last_writes=Vault.last_written,
    references=references.REFERENCES,
    sizes=lambda vault, caller: [vault.size(caller)],
    groups=Vault.groups,
    search=_search,
    journals=Vault.journals,
)
