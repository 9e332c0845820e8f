"""Who last wrote memories of any family."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from memory_mcp.caller import Caller
from memory_mcp.errors import AppError
from memory_mcp.families.family import OpenFamily
from memory_mcp.families.writes import origins


def origins_of(
    families: Mapping[str, OpenFamily[Any]], caller: Caller, refs: Mapping[str, Sequence[str]]
) -> dict[tuple[str, str], str]:
    """By family and reference, of the given references of each family. A family that cannot be read is left out."""
    found: dict[tuple[str, str], str] = {}
    for name, wanted in refs.items():
        one = families[name]
        if one.family.journals is None:
            continue
        with suppress(AppError):
            for journal in one.family.journals(one.operations, caller):
                with journal.read() as tx:
                    found |= {(name, ref): text for ref, text in origins(tx, journal.items, wanted).items()}
    return found
