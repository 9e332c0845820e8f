"""Whole graphs: exports, imports, and the transactions of every operation."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from itertools import compress

from memory_mcp.caller import Caller
from memory_mcp.changes import Changes
from memory_mcp.engines.sqlite.pending_index import read_indexed
from memory_mcp.engines.transactions import Read, UserDatabase, Write
from memory_mcp.errors import NotFound
from memory_mcp.families.graph import answers, storage
from memory_mcp.families.graph.databases import ProjectDatabases
from memory_mcp.families.graph.model import (
    Entity,
    Facts,
    GraphAddition,
    Imported,
    NamedRelation,
    NewEntity,
    Observation,
    Project,
    Relation,
)
from memory_mcp.families.graph.projects import ProjectOperations, check_name
from memory_mcp.services.sessions import Session, Sessions


class GraphTransfer(ProjectOperations):
    def __init__(self, databases: ProjectDatabases, sessions: Sessions, changes: Changes) -> None:
        super().__init__(databases, sessions)
        self._changes = changes

    def everything(self, caller: Caller, project: str) -> Iterator[Entity | Relation]:
        """A whole project as it stands now: its entities, then its relations."""
        with self._reading(caller, None, project) as tx:
            yield from _everything(tx)

    def every_project(self, caller: Caller) -> list[Project]:
        """All of them, archived ones too."""
        with self._databases.registry(caller.user).read() as tx:
            return storage.projects(tx, None)

    def everything_of(self, caller: Caller, project: Project) -> Iterator[Entity | Relation]:
        """The same as `everything`, of a project that may be archived."""
        with reading_indexed(self._databases.open(caller.user, project)) as tx:
            yield from _everything(tx)

    def add_graph(
        self,
        caller: Caller,
        project: str,
        entities: Sequence[NewEntity],
        relations: Sequence[NamedRelation],
        description: str = "",
        *,
        any_name: bool = False,
        created_at: str | None = None,
        addition: GraphAddition | None = None,
    ) -> Imported:
        """Add a graph to a project: all of it, or nothing. A missing project is created, with `created_at` as its time.

        Known entities and relations stay as they are. A relation whose ends are unknown is left out and counted. With
        `any_name` the name of the project may be no slug: other programs allow more. `addition` gets what was new.
        """
        self._create_if_missing(caller, project, description, any_name=any_name, created_at=created_at)
        with self._writing(caller, None, project) as tx:
            added = [storage.add_entity(tx, entity) for entity in entities]
            names = {entity.name for entity in entities} | {name for named in relations for name in named.ends}
            ids = storage.ids_of(tx, names)
            late = [
                storage.add_observation(tx, ids[entity.name], entity.name, content)
                for entity, new in zip(entities, added, strict=True)
                if new is None
                for content in entity.observations
            ]
            storage.touch(tx, {ids[one.entity_name] for one in late if one})
            whole = [named for named in relations if named.source in ids and named.target in ids]
            related = [storage.add_relation(tx, ids[named.source], ids[named.target], named) for named in whole]
            storage.clear_changes(tx)
            _record_new(tx, caller, added, late, related)
        if addition:
            addition.observations += [Facts(one.entity_name, (one.content,)) for one in late if one]
            addition.entities += compress(entities, added)
            addition.relations += compress(whole, related)
        new_entities, new_relations = list(filter(None, added)), list(filter(None, related))
        return Imported(
            entities=len(new_entities),
            observations=sum(len(one.observations) for one in new_entities) + sum(one is not None for one in late),
            relations=len(new_relations),
            known=added.count(None) + related.count(None),
            dangling=len(relations) - len(whole),
        )

    def _create_if_missing(
        self, caller: Caller, project: str, description: str, *, any_name: bool, created_at: str | None
    ) -> None:
        with self._databases.registry(caller.user).write() as registry:
            if storage.project(registry, project) is None:
                self._create_project(registry, caller, project, description, any_name=any_name, created_at=created_at)

    def remove_addition(self, caller: Caller, project: str, addition: GraphAddition) -> tuple[int, int]:
        """Remove what an import has added, in one transaction. An entity that has other observations or relations by
        now stays. Returns how many entities and relations are removed, and how many entities stay."""
        with self._writing(caller, None, project) as tx:
            ids = storage.ids_of(
                tx,
                {name for named in addition.relations for name in named.ends}
                | {one.name for one in addition.entities}
                | {facts.entity_name for facts in addition.observations},
            )
            removed = [
                write
                for one in addition.relations
                if one.source in ids and one.target in ids
                for write in storage.delete_relation(tx, ids[one.source], ids[one.target], one.relation_type)
            ]
            gone = list(removed)
            for facts in addition.observations:
                if facts.entity_name in ids and (
                    some := storage.delete_observations(tx, ids[facts.entity_name], facts)
                ):
                    storage.touch(tx, [ids[facts.entity_name]])
                    gone += some
            here = [one for one in addition.entities if one.name in ids]
            unchanged = [ids[one.name] for one in here if _is_unchanged(tx, ids[one.name], one)]
            gone += storage.delete_entities(tx, unchanged)
            storage.WRITES.record(tx, caller, *gone)
        return len(removed) + len(unchanged), len(here) - len(unchanged)

    def compare_graph(
        self,
        caller: Caller,
        project: str,
        entities: Iterable[NewEntity],
        relations: Iterable[NamedRelation],
        *,
        archived: bool = False,
        any_name: bool = False,
    ) -> Imported:
        """The answer that add_graph would give, without writing anything. An archived project is refused, as add_graph
        does, unless `archived`."""
        with self._databases.registry(caller.user).read() as registry:
            there = storage.project(registry, project)
        if there is None:
            if not (any_name and project):
                check_name(project)
            return answers.count_new((), entities, relations)
        known = self.everything_of(caller, there) if archived else self.everything(caller, project)
        return answers.count_new(known, entities, relations)

    @contextmanager
    def _writing(self, caller: Caller, session: Session | None, name: str | None) -> Iterator[Write]:
        with self._project(caller, session, name).write() as tx:
            if not tx.is_file and not storage.has_project_row(tx):
                raise NotFound("Another call has just deleted this project.", hint="list_projects shows what there is.")
            storage.index_changes(tx)  # of other programs
            yield tx
            storage.index_changes(tx)
        self._changes.publish(caller.user, (), list_changed=False)  # for the merge of indexes

    def _reading(self, caller: Caller, session: Session | None, name: str | None) -> AbstractContextManager[Read]:
        return reading_indexed(self._project(caller, session, name))


def _record_new(
    tx: Write,
    caller: Caller,
    entities: Iterable[Entity | None],
    observations: Iterable[Observation | None],
    relations: Iterable[Relation | None],
) -> None:
    """Record what is new, with the observations of the new entities."""
    storage.WRITES.record(
        tx,
        caller,
        *storage.new_writes(tx, [one.id for one in entities if one]),
        *storage.row_writes("observation", (one.id for one in observations if one), "created"),
        *storage.row_writes("relation", (one.id for one in relations if one), "created"),
    )


def reading_indexed(db: UserDatabase) -> AbstractContextManager[Read]:
    return read_indexed(db, storage.has_changes, storage.index_changes)


def _is_unchanged(tx: Read, id_: str, imported: NewEntity) -> bool:
    """Whether an entity has no observation beside the imported ones, and no relation."""
    has_more = not set(storage.observations(tx, id_)) <= set(imported.observations)
    return not has_more and next(storage.relations_touching(tx, [id_], 0, 1), None) is None


def _everything(tx: Read) -> Iterator[Entity | Relation]:
    for _, entity in storage.entities_after(tx, 0):
        yield replace(entity, observations=list(storage.observations(tx, entity.id)))
    yield from storage.relations(tx)
