"""Opening what a `ref` names, of whichever family."""

import json
from dataclasses import asdict
from typing import Any
from urllib.parse import unquote
from uuid import UUID

from memory_mcp.caller import Scope
from memory_mcp.errors import NotFound
from memory_mcp.families.family import Call
from memory_mcp.families.notes.operations import note_uri

NO_REF = (
    "Nothing has the address {ref!r}. `memory-mcp search` shows such as memory://note/ID, memory://vault/KEY, "
    "stores:STORE/PATH, graph:PROJECT/ENTITY or mem://NAMESPACE/PORTAL/TABLE."
)


def opened(call: Call, ref: str) -> Any:
    """What it holds, as its family shows it. Raises NotFound."""
    call.caller.require(Scope.READ)
    kind, _, rest = ref.partition(":")
    place, _, name = rest.partition("/")
    if kind == "stores" and name and kind in call.caller.families and kind in call.caller.families:
        return asdict(call.app.stores.get(call.caller, place, unquote(name), include_expired=True))
    if kind == "graph" and name and kind in call.caller.families and kind in call.caller.families:
        return _entity(call, unquote(place), unquote(name))
    uri = note_uri(ref) if _is_id(ref) else ref
    for family in call.app.families.values():
        if family.name in call.caller.families and uri.startswith(family.uri_prefixes):
            return json.loads(family.read_resource(call, uri).text)
    raise NotFound(NO_REF.format(ref=ref), ref=ref)


def _entity(call: Call, project: str, name: str) -> Any:
    from memory_mcp.families.graph.answers import Skip

    found = call.app.graph.open_nodes(call.caller, call.session, project, [name], Skip())
    if not found.entities:
        raise NotFound(f"The project {project!r} has no entity called {name!r}.", ref=f"graph:{project}/{name}")
    return found


def _is_id(text: str) -> bool:
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False
