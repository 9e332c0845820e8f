from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from functools import partial

from memory_mcp.caller import Caller
from memory_mcp.changes import Changes
from memory_mcp.engines.sqlite.index_merge import IndexMerge
from memory_mcp.engines.transactions import Read, Write
from memory_mcp.errors import AppError, Invalid, NotFound
from memory_mcp.families.family import LastWrite, within_budget
from memory_mcp.families.graph import answers, storage
from memory_mcp.families.graph.databases import ProjectDatabases
from memory_mcp.families.graph.journal_items import GraphItems, short_origins, with_origins
from memory_mcp.families.graph.model import (
    Created,
    DeletedCount,
    Entity,
    Facts,
    GraphView,
    KnownObservation,
    NamedRelation,
    NewEntity,
    Nodes,
    NotStored,
    Observed,
    Project,
    Related,
    Relation,
    project_ref,
    ref_of,
    split_ref,
)
from memory_mcp.families.graph.projects import existing
from memory_mcp.families.graph.transfer import GraphTransfer
from memory_mcp.families.references import GroupSize, changed_meanwhile
from memory_mcp.families.texts import Group, Text
from memory_mcp.families.writes import Journal, StateUndo
from memory_mcp.services.search import word_search
from memory_mcp.services.search.text_facts import TextFacts
from memory_mcp.services.sessions import Session, Sessions
from memory_mcp.services.write_journal import ItemWrite

MAX_WORD_HITS = 200  # entities that words find
MAX_RELATIONS_PER_ENTITY = 4  # relations for each entity in a picture


class Graph(GraphTransfer):
    """The operations on knowledge graphs."""

    def __init__(self, databases: ProjectDatabases, sessions: Sessions, changes: Changes) -> None:
        super().__init__(databases, sessions, changes)
        self.index_merge = IndexMerge("graph_words", databases.opened)
        changes.listen(self.index_merge.merge_if_due)

    def create_entities(
        self, caller: Caller, session: Session, project: str | None, new: Sequence[NewEntity]
    ) -> Created:
        """All of them or, if anything fails, none. A name that exists adds nothing and is reported."""
        with self._writing(caller, session, project) as tx:
            made = [(one, storage.add_entity(tx, one)) for one in new]
            storage.clear_changes(tx)
            storage.WRITES.record(tx, caller, *storage.new_writes(tx, [entity.id for _, entity in made if entity]))
            skipped = [one for one, entity in made if not entity]
            not_stored = _not_stored(tx, skipped)
        created = Created([entity for _, entity in made if entity], [one.name for one in skipped])
        return answers.cut_to_size(answers.with_advice(created, not_stored))

    def add_observations(
        self, caller: Caller, session: Session, project: str | None, facts: Sequence[Facts]
    ) -> Observed:
        """Raises NotFound naming the entities that do not exist, and adds nothing then."""
        added, skipped = [], []
        with self._writing(caller, session, project) as tx:
            ids = _known(tx, (fact.entity_name for fact in facts))
            for fact in facts:
                for content in fact.contents:
                    observation = storage.add_observation(tx, ids[fact.entity_name], fact.entity_name, content)
                    if observation:
                        added.append(observation)
                    else:
                        skipped.append(KnownObservation(fact.entity_name, content))
            storage.touch(tx, {ids[one.entity_name] for one in added})
            storage.clear_changes(tx)
            storage.WRITES.record(tx, caller, *storage.row_writes("observation", (one.id for one in added), "created"))
        return answers.cut_to_size(Observed(added, skipped))

    def create_relations(
        self, caller: Caller, session: Session, project: str | None, relations: Sequence[NamedRelation]
    ) -> Related:
        """Raises NotFound naming the entities that do not exist, and adds nothing then."""
        added, skipped = [], []
        with self._writing(caller, session, project) as tx:
            ids = _known(tx, (name for named in relations for name in (named.source, named.target)))
            for named in relations:
                relation = storage.add_relation(tx, ids[named.source], ids[named.target], named)
                if relation:
                    added.append(relation)
                else:
                    skipped.append(named)
            storage.WRITES.record(tx, caller, *storage.row_writes("relation", (one.id for one in added), "created"))
        return answers.cut_to_size(Related(added, skipped))

    def delete_entities(
        self, caller: Caller, session: Session, project: str | None, names: Sequence[str]
    ) -> DeletedCount:
        """With their observations and relations. A name that no entity has is no error."""
        with self._writing(caller, session, project) as tx:
            ids = storage.ids_of(tx, dict.fromkeys(names))
            storage.WRITES.record(tx, caller, *storage.delete_entities(tx, ids.values()))
        return DeletedCount(len(ids))

    def delete_observations(
        self, caller: Caller, session: Session, project: str | None, facts: Sequence[Facts]
    ) -> DeletedCount:
        gone: list[ItemWrite] = []
        with self._writing(caller, session, project) as tx:
            ids = storage.ids_of(tx, {fact.entity_name for fact in facts})
            for fact in facts:
                if fact.entity_name in ids and (some := storage.delete_observations(tx, ids[fact.entity_name], fact)):
                    gone += some
                    storage.touch(tx, [ids[fact.entity_name]])
            storage.WRITES.record(tx, caller, *gone)
        return DeletedCount(len(gone))

    def delete_relations(
        self, caller: Caller, session: Session, project: str | None, relations: Sequence[NamedRelation]
    ) -> DeletedCount:
        gone: list[ItemWrite] = []
        with self._writing(caller, session, project) as tx:
            ids = storage.ids_of(tx, {name for named in relations for name in (named.source, named.target)})
            for named in relations:
                if named.source in ids and named.target in ids:
                    gone += storage.delete_relation(tx, ids[named.source], ids[named.target], named.relation_type)
            storage.WRITES.record(tx, caller, *gone)
        return DeletedCount(len(gone))

    def search(self, caller: Caller, session: Session, project: str | None, query: str, limit: int) -> Nodes:
        """The entities that match best by their names, types and observations, with their relations."""
        if not query:
            raise Invalid("Give words to look for.", hint="read_graph reads everything.", field="query")
        with self._reading(caller, session, project) as tx:
            matches = word_search.by_words(
                storage.GraphWordIndex(tx), query, max(MAX_WORD_HITS, limit), falls_back=True
            )
            scores = matches.scores()
            best = sorted(scores, key=lambda number: (-scores[number], number))[:limit]
            ids = storage.ids_by_number(tx, best)
            found = [ids[number] for number in best if number in ids]
            nodes = with_origins(tx, answers.nodes(tx, found, answers.Skip(), "Narrow the query or lower the limit."))
        return replace(nodes, notice=" ".join(filter(None, (matches.notice, nodes.notice))) or None)

    def open_nodes(
        self, caller: Caller, session: Session, project: str | None, names: Sequence[str], skip: answers.Skip
    ) -> Nodes:
        """The entities with these names and the relations that touch them, after what is skipped."""
        with self._reading(caller, session, project) as tx:
            ids = storage.ids_of(tx, dict.fromkeys(names))
            wanted = [ids[name] for name in dict.fromkeys(names) if name in ids]
            return with_origins(tx, answers.nodes(tx, wanted, skip, "Ask for fewer names."))

    def read_graph(self, caller: Caller, session: Session, project: str | None, offset: int) -> Nodes:
        """Everything, a page at a time: entities from a position on, each with the relations that start at it."""
        with self._reading(caller, session, project) as tx:
            return answers.page(tx, offset, partial(short_origins, tx))

    def counts(self, caller: Caller) -> Iterator[int]:
        """How many entities each active project has."""
        for project in self._active(caller):
            with self._reading(caller, None, project.name) as tx:
                yield storage.entity_count(tx)

    def sizes(self, caller: Caller) -> Iterator[GroupSize]:
        """The same by project, each with the time of its last write. One whose file cannot be read is left out."""
        for project in self._active(caller):
            with suppress(AppError), self._reading(caller, None, project.name) as tx:
                last = storage.last_written(tx, 1)
                written_at = last[0][1] if last else project.updated_at
                yield GroupSize(project.name, storage.entity_count(tx), written_at, project_ref(project.name))

    def describe(self, caller: Caller, project: str) -> tuple[Project, list[Entity]]:
        """An active project and its entities, without their observations."""
        with self._reading(caller, None, project) as tx:
            entities = [entity for _, entity in storage.entities_after(tx, 0)]
        with self._databases.registry(caller.user).read() as tx:
            return existing(tx, caller, project), entities

    def entity(self, caller: Caller, project: str, name: str) -> tuple[Entity, list[Relation]]:
        """One entity with all its observations and relations. Raises NotFound."""
        with self._reading(caller, None, project) as tx:
            return _whole(tx, project, name)

    def revise_entity(
        self, caller: Caller, project: str, name: str, was: Sequence[str], observations: Sequence[str]
    ) -> None:
        """Give an entity these observations. Raises Conflict with the code `changed` if it has others than `was`."""
        with self._writing(caller, None, project) as tx:
            entity, _ = _whole(tx, project, name)
            if entity.observations != list(was):
                raise changed_meanwhile(f"The entity {name!r}")
            removed = [content for content in was if content not in observations]
            gone = storage.delete_observations(tx, entity.id, Facts(name, tuple(removed)))
            added = [storage.add_observation(tx, entity.id, name, content) for content in observations]
            new = storage.row_writes("observation", (one.id for one in added if one), "created")
            storage.WRITES.record(tx, caller, *gone, *new)
            storage.touch(tx, [entity.id])
            storage.clear_changes(tx)

    def delete_entity(
        self, caller: Caller, project: str, name: str, save_copy: Callable[[Entity, list[Relation]], None]
    ) -> None:
        """Delete an entity. `save_copy` gets it first, with its relations, in the same transaction."""
        with self._writing(caller, None, project) as tx:
            entity, relations = _whole(tx, project, name)
            save_copy(entity, relations)
            storage.WRITES.record(tx, caller, *storage.delete_entities(tx, [entity.id]))

    def journals(self, caller: Caller) -> Iterator[Journal]:
        """Of every active project."""
        for project in self._active(caller):
            name = project.name
            items = GraphItems(name)
            read = partial(self._reading, caller, None, name)
            yield Journal(
                items,
                read,
                StateUndo(items, read, partial(self._undoing, caller, name)),
                group=name,
                may_hold=partial(_is_in, name),
            )

    def _undoing(self, caller: Caller, project: str, _: Sequence[str]) -> AbstractContextManager[Write]:
        return self._writing(caller, None, project)

    def _active(self, caller: Caller) -> list[Project]:
        with self._databases.registry(caller.user).read() as tx:
            return storage.projects(tx, "active")

    def groups(self, caller: Caller) -> Iterator[Group]:
        """Every active project as texts, for recall."""
        for project in self._active(caller):
            yield Group(
                project.name,
                versions=partial(self._versions, caller, project.name),
                texts=partial(self._texts, caller, project.name),
            )

    def _versions(self, caller: Caller, project: str) -> dict[str, str]:
        with self._reading(caller, None, project) as tx:
            return storage.versions(tx)

    def _texts(self, caller: Caller, project: str, names: Sequence[str]) -> Iterator[Text | None]:
        with self._reading(caller, None, project) as tx:
            ids = storage.ids_of(tx, names)
            known = {entity.name: entity for entity in storage.entities(tx, list(ids.values()))}
            sessions = GraphItems(project).last_sessions(tx, list(ids.values()))
            for name in names:
                entity = known.get(name)
                if entity is None:
                    yield None
                    continue
                content = "\n".join([entity.entity_type, *storage.observations(tx, entity.id)])
                session_id, written_at = sessions.get(entity.id, (None, None))
                facts = TextFacts(entity.created_at, entity.updated_at, session_id=session_id, written_at=written_at)
                yield Text(ref_of(project, name), name, content, facts=facts)

    def view(self, caller: Caller, project: str, limit: int, around: str | None = None) -> GraphView:
        """The best connected entities of a project, or one and its neighbors, and the relations among them, as a
        picture shows them. Raises NotFound."""
        with self._reading(caller, None, project) as tx:
            if around is None:
                found = storage.best_connected(tx, limit)
            else:
                ids = storage.ids_of(tx, [around])
                if around not in ids:
                    raise _no_entity(project, around)
                found = storage.with_neighbors(tx, ids[around], limit)
            edges = storage.relations_among(tx, [id_ for id_, *_ in found], MAX_RELATIONS_PER_ENTITY * limit)
            return GraphView([(name, kind, degree) for _, name, kind, degree in found], edges, storage.entity_count(tx))

    def last_written(self, caller: Caller, limit: int) -> list[LastWrite]:
        """The entities last written, in all active projects."""
        found = []
        for project in self._active(caller):
            with self._reading(caller, None, project.name) as tx:
                rows = storage.last_written(tx, limit)
            found += [LastWrite(ref_of(project.name, name), name, at) for name, at in rows]
        return found


def _whole(tx: Read, project: str, name: str) -> tuple[Entity, list[Relation]]:
    """An entity with all its observations and relations. Raises NotFound."""
    ids = list(storage.ids_of(tx, [name]).values())
    for entity in storage.entities(tx, ids):
        whole = replace(entity, observations=list(storage.observations(tx, entity.id)))
        return whole, list(storage.relations_touching(tx, ids, 0, storage.ALL_ROWS))
    raise _no_entity(project, name)


def _no_entity(project: str, name: str) -> NotFound:
    return NotFound(f"The project {project!r} has no entity called {name!r}.", hint="search_nodes finds what it has.")


def _not_stored(tx: Read, skipped: Sequence[NewEntity]) -> list[NotStored]:
    """The new observations that were given for existing entities."""
    ids = storage.ids_of(tx, {one.name for one in skipped})
    given: dict[str, list[str]] = {}
    for one in skipped:
        given.setdefault(one.name, []).extend(one.observations)
    lacking = {name: storage.lacking(tx, ids[name], contents) for name, contents in given.items()}
    return [NotStored(name, contents) for name, contents in lacking.items() if contents]


def _known(tx: Read, names: Iterable[str]) -> dict[str, str]:
    wanted = dict.fromkeys(names)
    ids = storage.ids_of(tx, wanted)
    if missing := [name for name in wanted if name not in ids]:
        listed = ", ".join(repr(name) for name in missing[:10])
        shown = within_budget(missing, lambda name: len(name.encode()) + 4)
        raise NotFound(
            f"No such entities: {listed}. Nothing was added.", hint="create_entities makes them.", missing=shown
        )
    return ids


def _is_in(project: str, ref: str) -> bool:
    """Whether a reference names something of a project."""
    return split_ref(ref)[0] == project
