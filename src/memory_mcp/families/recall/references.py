"""Opens a `ref` of any family."""

import json
from collections.abc import Mapping
from typing import Any

from memory_mcp.caller import Caller, Scope
from memory_mcp.errors import NotFound
from memory_mcp.families.family import Call, Family, OpenFamily
from memory_mcp.sessions import Session


def open_reference(families: Mapping[str, OpenFamily[Any]], caller: Caller, session: Session, ref: str) -> Any:
    """The referenced item, as its family shows it. Raises NotFound."""
    caller.require(Scope.READ)
    for name, one in families.items():
        if name in caller.families and _is_of(one.family, ref):
            call = Call(one.operations, caller, session)
            if one.family.open_reference:
                return one.family.open_reference(call, ref)
            return json.loads(one.family.read_resource(call, ref).text)
    raise NotFound(
        f"Nothing has the address {ref!r}. `memory-mcp search` shows addresses such as {_forms(families)}.", ref=ref
    )


def _is_of(family: Family[Any], ref: str) -> bool:
    return ref.startswith(family.uri_prefixes) or family.is_reference(ref)


def _forms(families: Mapping[str, OpenFamily[Any]]) -> str:
    *first, last = [one.family.reference_form for one in families.values() if one.family.reference_form]
    return f"{', '.join(first)} or {last}"
