"""Names of arguments that models send because other servers use them, and the argument that each one means."""

from collections.abc import Mapping
from functools import cache

from pydantic.fields import FieldInfo

from memory_mcp.families.family import Arguments

SYNONYMS: Mapping[str, tuple[str, ...]] = {
    # Texts, and what finds them
    "content": ("text", "body", "memory", "note", "value", "message"),
    "query": ("q", "search", "search_query", "search_text", "question", "text"),
    "title": ("name", "subject"),
    "tags": ("tag", "labels", "label"),
    "metadata": ("meta", "properties"),
    "limit": ("top_k", "k", "n", "max_results", "n_results", "num_results", "page_size"),
    "offset": ("skip", "start"),
    "id": ("note_id", "memory_id", "uuid", "identifier", "ref", "uri"),
    "ref": ("uri", "reference", "id", "identifier"),
    "key": ("name", "title", "memory_key"),
    "expires_at": ("expires", "expiry", "expire_at", "expiration", "expiration_date", "valid_until"),
    # Times
    "after": ("created_after", "since", "after_date", "start_date", "from_date"),
    "before": ("created_before", "until", "before_date", "end_date", "to_date"),
    "created_after": ("after", "since", "after_date", "start_date", "from_date"),
    "created_before": ("before", "until", "before_date", "end_date", "to_date"),
    "older_than": ("before", "created_before", "older"),
    # Vault
    "embedding": ("vector", "embeddings"),
    "query_embedding": ("embedding", "vector", "query_vector"),
    "session_id": ("session", "id", "name"),
    # Notes
    "namespace": ("ns",),
    "folder": ("directory", "dir"),
    "search_mode": ("mode", "search_type"),
    "source_id": ("from", "from_id", "source"),
    "target_id": ("to", "to_id", "target"),
    "depth": ("max_depth",),
    # Stores
    "store": ("store_name",),
    "path": ("file_path", "file", "file_name", "memory_path", "permalink", "identifier"),
    "from_path": ("from", "source", "source_path", "old_path", "path", "identifier"),
    "to_path": ("to", "target", "target_path", "destination", "destination_path", "new_path"),
    "category": ("folder", "directory", "dir", "path"),
    "citations": ("citation", "sources", "references"),
    # Graph
    "name": ("title", "project", "project_name", "entity_name", "entity"),
    "project": ("project_name",),
    "entities": ("entity", "nodes", "node"),
    "relations": ("relation", "edges", "edge"),
    "deletions": ("deletion", "observations"),
    "names": ("name", "entity_names", "entity_name", "entities", "nodes"),
    "entity_name": ("name", "entity"),
    "entity_type": ("type", "kind"),
    "relation_type": ("type", "relation", "predicate"),
    "contents": ("content", "observations", "observation", "text", "facts"),
    "observations": ("observation", "contents", "content", "text", "facts"),
    "from": ("source", "from_entity", "source_entity", "subject"),
    "to": ("target", "to_entity", "target_entity", "object"),
    # Portals
    "portalUri": ("uri", "portal"),
    "portalName": ("name",),
    "portalDescription": ("description",),
    "table": ("table_name",),
    "data": ("records", "rows", "record", "row", "items"),
    "sql": ("query", "statement", "sql_query"),
    "parameters": ("params",),
    "where": ("filter", "conditions", "condition"),
    "source": ("file", "file_path", "file_name", "path"),
    "destination": ("file", "file_path", "file_name", "path"),
    # Recall
    "families": ("family",),
}
"""By the name of an argument, others for it. A tool takes one if it has no argument of that name, and it means only one
of the tool's arguments. Every name is also taken in camelCase, snake_case and kebab-case. None is in tools/list."""


def canonical_name(model: type[Arguments], name: str) -> str | None:
    """The argument of this model that a name means: itself, or the only one that it is another name for."""
    known, others = _names(model)
    return name if name in known else others.get(_folded(name))


def known_names(model: type[Arguments]) -> tuple[str, ...]:
    """As tools/list has them."""
    return _names(model)[0]


def fields_of(model: type[Arguments]) -> dict[str, FieldInfo]:
    """The fields of a model by their names in tools/list."""
    return {field.alias or name: field for name, field in model.model_fields.items()}


@cache
def _names(model: type[Arguments]) -> tuple[tuple[str, ...], dict[str, str]]:
    known = tuple(fields_of(model))
    meanings: dict[str, set[str]] = {}
    for name in known:
        for other in SYNONYMS.get(name, ()):
            meanings.setdefault(_folded(other), set()).add(name)
    spelled = {_folded(name): name for name in known}
    return known, {other: min(names) for other, names in meanings.items() if len(names) == 1} | spelled


def _folded(name: str) -> str:
    """The same for entityType, entity_type and entity-type."""
    return name.replace("_", "").replace("-", "").casefold()
