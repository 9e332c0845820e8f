"""An overview of a caller's memories in every family, short however many there are."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from pydantic import TypeAdapter

from memory_mcp.caller import Caller
from memory_mcp.clock import instant, stamp
from memory_mcp.errors import AppError
from memory_mcp.families.family import OpenFamily
from memory_mcp.families.recall.model import FamilyShown, GroupShown, Overview
from memory_mcp.families.references import GroupSize

MAX_ANSWER_BYTES = 3_100  # of ASCII: 1,500 tokens of o200k_base, for names and times
NON_ASCII_FACTOR = 2.0  # a byte of another character counts as so many: fewer of them are in a token
FAMILY_BYTES = 90  # of a family without its groups
NOTICE_BYTES = 500
MIN_GROUPS_PER_FAMILY = 3  # chosen before the last written of all others
MAX_TABLES = 10  # of a portal


@dataclass(frozen=True)
class _Family:
    name: str
    open: OpenFamily[Any]
    groups: list[GroupSize]  # the last written first


def describe(families: Mapping[str, OpenFamily[Any]], caller: Caller) -> Overview:
    """Every family with its groups, those written last first, as many as fit."""
    found, notices = [], []
    for name, one in families.items():
        if one.family.sizes and name in caller.families:
            try:
                found.append(_Family(name, one, _sorted(one.family.sizes(one.operations, caller))))
            except AppError as exc:
                notices.append(f"{name} cannot be read: {exc.public_message}")
    chosen = _chosen(found)
    notices += [_left_out(family, chosen) for family in found if _missing(family, chosen)]
    return Overview([_shown(family, chosen) for family in found], " ".join(notices) or None)


def _sorted(sizes: Iterable[GroupSize]) -> list[GroupSize]:
    groups = [replace(group, last_write=_to_the_second(group.last_write)) for group in sizes]
    return sorted(groups, key=lambda group: (group.last_write or "", group.name or ""), reverse=True)


def _to_the_second(moment: str | None) -> str | None:
    try:
        return stamp(instant(moment)) if moment else None
    except ValueError:  # a file may have any text as its time
        return None


def _chosen(families: list[_Family]) -> set[tuple[str, str]]:
    """(family, group) of those that fit: the first few of each family, then the last written of all."""
    ranked = [
        (rank >= MIN_GROUPS_PER_FAMILY, group.last_write or "", family.name, group)
        for family in families
        for rank, group in enumerate(family.groups)
        if group.name
    ]
    ranked.sort(key=lambda one: one[1], reverse=True)
    ranked.sort(key=lambda one: one[0])
    left: float = MAX_ANSWER_BYTES - NOTICE_BYTES - FAMILY_BYTES * len(families)
    chosen = set()
    for _, _, name, group in ranked:
        cost = _cost(group)
        if cost <= left:
            left -= cost
            chosen.add((name, str(group.name)))
    return chosen


def _cost(group: GroupSize) -> float:
    text = _adapter().dump_json(_group(group)).decode()
    ascii_bytes = sum(sign.isascii() for sign in text)
    return ascii_bytes + NON_ASCII_FACTOR * (len(text.encode()) - ascii_bytes)


@cache
def _adapter() -> TypeAdapter[GroupShown]:
    """Built once, when it is first needed: that takes as long as encoding a hundred groups."""
    return TypeAdapter(GroupShown)


def _group(group: GroupSize) -> GroupShown:
    return GroupShown(str(group.name), group.count, group.last_write, _tables(group))


def _tables(group: GroupSize) -> dict[str, int] | None:
    """The tables of a portal with most rows."""
    tables = sorted(group.tables.items(), key=lambda table: -table[1])
    more = {"…": len(tables) - MAX_TABLES} if len(tables) > MAX_TABLES else {}
    return dict(tables[:MAX_TABLES]) | more or None


def _shown(family: _Family, chosen: set[tuple[str, str]]) -> FamilyShown:
    groups = [_group(group) for group in family.groups if group.name and (family.name, group.name) in chosen]
    latest = max((group.last_write for group in family.groups if group.last_write), default=None)
    return FamilyShown(family.name, sum(group.count or 0 for group in family.groups), latest, groups)


def _missing(family: _Family, chosen: set[tuple[str, str]]) -> int:
    return sum(bool(group.name) and (family.name, group.name) not in chosen for group in family.groups)


def _left_out(family: _Family, chosen: set[tuple[str, str]]) -> str:
    references = family.open.family.references
    ref = references.all_groups if references else None
    return f"{_missing(family, chosen)} more of {family.name}: recall_open with ref {ref} lists all."
