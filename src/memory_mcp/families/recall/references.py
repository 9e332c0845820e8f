"""Opens a reference of any family."""

from collections.abc import Mapping
from typing import Any

from memory_mcp.caller import Caller, Scope
from memory_mcp.errors import NotFound
from memory_mcp.families.family import Call, OpenFamily
from memory_mcp.families.references import Opened, References, text_of_list
from memory_mcp.services.sessions import Session


def open_reference(
    families: Mapping[str, OpenFamily[Any]], caller: Caller, session: Session, ref: str
) -> tuple[str, Opened]:
    """The name of a reference's family, and the memory. Raises NotFound."""
    one, references = family_of(families, caller, ref)
    if ref == references.all_groups:
        return one.family.name, _all_groups(one, caller, ref)
    return one.family.name, references.open(Call(one.operations, caller, session), ref)


def family_of(
    families: Mapping[str, OpenFamily[Any]], caller: Caller, ref: str
) -> tuple[OpenFamily[Any], References[Any]]:
    """The family of a reference. Raises NotFound if it looks like none."""
    caller.require(Scope.READ)
    visible = {name: one for name, one in families.items() if name in caller.families and one.family.references}
    for one in visible.values():
        references = one.family.references
        if references and (ref == references.all_groups or references.includes(ref)):
            return one, references
    raise NotFound(
        f"Nothing has the reference {ref!r}.",
        hint=f"recall_memories gives references such as {_forms(visible)}.",
        people_hint=f"`memory-mcp list` and `memory-mcp search` show references such as {_forms(visible)}.",
        ref=ref,
    )


def _all_groups(one: OpenFamily[Any], caller: Caller, ref: str) -> Opened:
    """The list of a family's namespaces, stores, projects or portals."""
    found = [group for group in one.family.sizes(one.operations, caller) if group.name] if one.family.sizes else []
    found.sort(key=lambda group: (group.last_write or "", group.name), reverse=True)
    lines = [f"{group.ref}: {'?' if group.count is None else group.count} ({group.last_write})" for group in found]
    latest = max((group.last_write for group in found if group.last_write), default=None)
    details = [vars(group) for group in found]
    return Opened(ref, one.family.name, text_of_list(f"{one.family.name}: {len(found)}", lines), details, None, latest)


def _forms(families: Mapping[str, OpenFamily[Any]]) -> str:
    forms = [one.family.references.form for one in families.values() if one.family.references]
    return " or ".join(filter(None, [", ".join(forms[:-1]), *forms[-1:]]))
