"""Cuts answers to a size that a model can read, and names the call for the rest."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TypeVar

from memory_mcp.engines.transactions import Read
from memory_mcp.families.family import TOKEN_BUDGET
from memory_mcp.families.graph import storage
from memory_mcp.families.graph.model import (
    Created,
    Entity,
    Imported,
    NamedRelation,
    NewEntity,
    Nodes,
    NotStored,
    Observed,
    Project,
    Projects,
    Related,
    Relation,
)
from memory_mcp.families.graph.storage.pages import PagedEntity
from memory_mcp.families.writes import MAX_ORIGIN_CHARS

MAX_ANSWER_BYTES = TOKEN_BUDGET * 3  # of JSON: with so many ids and dates, a token of o200k_base has three bytes
MAX_ENTITY_BYTES = int(MAX_ANSWER_BYTES * 0.7)  # the rest, and unused bytes, are for relations
MAX_RELATIONS = 1000  # more than fit into one answer

T = TypeVar("T")
A = TypeVar("A", Created, Observed, Related)


@dataclass(frozen=True)
class Skip:
    """How much of an entity earlier answers have shown."""

    observations: int = 0
    relations: int = 0


def nodes(tx: Read, ids: Sequence[str], skip: Skip, advice: str) -> Nodes:
    """As many of these entities as fit, with the relations that touch them. `advice` is for when some do not."""
    entities, are_whole = _entities(tx, ids, skip.observations)
    touching = storage.relations_touching(tx, [entity.id for entity in entities], skip.relations, MAX_RELATIONS)
    relations, are_all = _items_within(touching, MAX_ANSWER_BYTES - sum(map(_size, entities)))
    notices = []
    if len(entities) == 1 and not (are_whole and are_all):
        notices.append(_rest(entities[0], relations, skip))
    elif not are_all:
        notices.append("Not all relations are shown: call open_nodes with one name at a time for the others.")
    if left_out := len(ids) - len(entities):
        notices.append(f"{left_out} more would be too long to show at once. {advice}")
    return Nodes(entities, relations, " ".join(notices) or None)


def page(tx: Read, offset: int, origins: Callable[[Sequence[str]], Mapping[str, str]]) -> Nodes:
    """As many entities after a position as fit, each with the relations that start at it. `origins` says who wrote the
    entities with these ids."""
    placed: list[PagedEntity] = []
    space, last = MAX_ANSWER_BYTES, offset
    for one in storage.paged_entities_after(tx, offset):
        if one is None or one.size + MAX_ORIGIN_CHARS > space:
            break
        placed.append(one)
        space, last = space - one.size - MAX_ORIGIN_CHARS, one.position
    notices = []
    if placed or not (first := next(storage.entities_after(tx, offset), None)):
        known = origins([one.id for one in placed])
        entities = [one.entity(known.get(one.id)) for one in placed]
        relations = [relation for one in placed for relation in one.relations_from()]
    else:
        last, found = first
        entity, is_whole = _described(tx, found, 0, MAX_ENTITY_BYTES, is_first=True)
        relations, are_all = _items_within(storage.relations_from(tx, entity.id), space - _size(entity))
        entities = [replace(entity, origin=origins([entity.id]).get(entity.id))]
        if not (is_whole and are_all):
            notices.append(_rest(entity, relations, Skip()))
    if any(storage.entities_after(tx, last)):
        notices.append(f"There is more: call read_graph with offset {last}.")
    return Nodes(entities, relations, " ".join(notices) or None)


def with_advice(created: Created, not_stored: list[NotStored]) -> Created:
    """The answer, and what to call for names that exist."""
    if not created.skipped:
        return created
    notice = "Names under `skipped` exist already and stay as they are."
    if not_stored:
        notice += " Their new observations, under `not_stored`, are not kept: add_observations adds them."
    return replace(created, notice=notice, not_stored=not_stored or None)


def cut_to_size(answer: A) -> A:
    """The answer to a write, cut to the size limit for a model. The items left out are written, too."""
    lists = [field.name for field in fields(answer) if isinstance(getattr(answer, field.name), list)]
    items = [(name, one) for name in lists for one in getattr(answer, name)]
    kept, are_all = _items_within(items, MAX_ANSWER_BYTES)
    if are_all:
        return answer
    advice = (
        f"All is done, and too long to show: {len(items) - len(kept)} items are left out here. open_nodes shows them."
    )
    shown = {name: [one for kind, one in kept if kind == name] for name in lists}
    return replace(answer, notice=f"{answer.notice} {advice}" if answer.notice else advice, **shown)


def listed(projects: Sequence[Project]) -> Projects:
    shown, are_all = _items_within(projects, MAX_ANSWER_BYTES, 1)
    left_out = len(projects) - len(shown)
    notice = (
        None if are_all else f"{left_out} more are not shown. Ask for active and archived ones one after the other."
    )
    return Projects(shown, notice)


def _entities(tx: Read, ids: Sequence[str], skip: int) -> tuple[list[Entity], bool]:
    """As many as fit whole, or a part of the first if it alone is too long; and whether they are whole."""
    entities: list[Entity] = []
    space = MAX_ENTITY_BYTES
    for found in storage.entities(tx, ids):
        entity, is_whole = _described(tx, found, skip, space, is_first=not entities)
        if not is_whole:
            return (entities, True) if entities else ([entity], False)
        entities.append(entity)
        space -= _size(entity)
    return entities, True


def _described(tx: Read, entity: Entity, skip: int, space: int, *, is_first: bool) -> tuple[Entity, bool]:
    """An entity with as many of its observations as fit, and whether it fits whole. The first has at least one."""
    space -= _size(entity)
    observations, are_all = _items_within(storage.observations(tx, entity.id, skip), space, 1 if is_first else 0)
    return replace(entity, observations=observations), are_all and (space >= 0 or is_first)


def _items_within(items: Iterable[T], space: int, at_least: int = 0) -> tuple[list[T], bool]:
    """As many items from the front as fit, and whether that is all of them."""
    shown: list[T] = []
    for item in items:
        space -= _size(item)
        if space < 0 and len(shown) >= at_least:
            return shown, False
        shown.append(item)
    return shown, True


def _rest(entity: Entity, relations: Sequence[Relation], skip: Skip) -> str:
    """What to call for the rest of an entity."""
    seen = {
        "skip_observations": skip.observations + len(entity.observations),
        "skip_relations": skip.relations + len(relations),
    }
    name = json.dumps(entity.name, ensure_ascii=False)
    skipping = "".join(f" and {argument} {count}" for argument, count in seen.items() if count)
    return f"{name} has more: call open_nodes with names [{name}]{skipping}."


def _size(item: object) -> int:
    """About how many bytes of JSON it makes."""
    if item is None:
        return 0
    if isinstance(item, str):
        return len(item.encode()) + 4
    if isinstance(item, list | tuple):
        return sum(map(_size, item))
    return 80 + sum(map(_size, vars(item).values()))


def count_new(
    existing: Iterable[Entity | Relation], entities: Iterable[NewEntity], relations: Iterable[NamedRelation]
) -> Imported:
    """How many of these entities and relations are new to a graph with the existing ones."""
    known: dict[str, set[str]] = {}
    related: set[tuple[str, str, str]] = set()
    for item in existing:
        if isinstance(item, Entity):
            known[item.name] = set(item.observations)
        else:
            related.add((item.source, item.target, item.relation_type))
    counts = dict.fromkeys((field.name for field in fields(Imported)), 0)
    for entity in entities:
        counts["known" if entity.name in known else "entities"] += 1
        before = known.setdefault(entity.name, set())
        counts["observations"] += len(set(entity.observations) - before)
        before.update(entity.observations)
    for named in relations:
        whole = (named.source, named.target, named.relation_type)
        is_dangling = named.source not in known or named.target not in known
        counts["dangling" if is_dangling else "known" if whole in related else "relations"] += 1
        related.add(whole)
    return Imported(**counts)
