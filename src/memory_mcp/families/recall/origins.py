"""Who last wrote memories of any family."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from memory_mcp.caller import Caller
from memory_mcp.errors import AppError
from memory_mcp.families.family import OpenFamily
from memory_mcp.families.writes import Journal, MemoryWrite, origins, writes_of


def origins_of(
    families: Mapping[str, OpenFamily[Any]], caller: Caller, refs: Mapping[str, Sequence[str]]
) -> dict[tuple[str, str], str]:
    """By family and reference, of the given references of each family. A family that cannot be read is left out."""
    found: dict[tuple[str, str], str] = {}
    for name, wanted in refs.items():
        with suppress(AppError):
            for journal in _journals(families[name], caller, wanted):
                with journal.read() as tx:
                    found |= {(name, ref): text for ref, text in origins(tx, journal.items, wanted).items()}
    return found


def last_writes_of(one: OpenFamily[Any], caller: Caller, ref: str, limit: int) -> list[MemoryWrite]:
    """The last writes of a memory of this family, the newest first. None are known of what was written before there
    were journals, and of what other programs wrote."""
    for journal in _journals(one, caller, [ref]):
        with journal.read() as tx:
            if found := writes_of(tx, journal.items, ref, limit):
                return found
    return []


def _journals(one: OpenFamily[Any], caller: Caller, refs: Sequence[str]) -> Iterator[Journal]:
    """Those that may know one of the references: a family may have a database for each of many projects."""
    if one.family.journals is not None:
        for journal in one.family.journals(one.operations, caller):
            if any(map(journal.may_hold, refs)):
                yield journal
