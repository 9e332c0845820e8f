import json
import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from itertools import islice
from pathlib import Path
from typing import TypeVar
from uuid import uuid4

from memory_mcp.access import Tenants
from memory_mcp.caller import LOCAL_USER, Caller
from memory_mcp.errors import Conflict, Invalid, NotFound
from memory_mcp.families import within_budget
from memory_mcp.graph import storage
from memory_mcp.graph.files import OpenFile, OpenFiles, Place, heal
from memory_mcp.graph.model import (
    Created,
    DeletedCount,
    Entity,
    Facts,
    Imported,
    KnownObservation,
    NewEntity,
    Nodes,
    Observation,
    Observed,
    Project,
    ProjectNews,
    Projects,
    Related,
    Relation,
    Status,
    Tie,
)
from memory_mcp.search import finding
from memory_mcp.sessions import Session, Sessions
from memory_mcp.sqlite import Database, Read
from memory_mcp.sqlite.tidying import Tidying

SLUG = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
NO_PROJECT = "No active project. Use switch_project to select one. Or name it in the call: `project`."
BY_WORDS = 200  # entities that words bring into the running
STEP = 500  # entities on a page of an export
MOST_RELATIONS = 1000  # looked at for one answer
FOR_ENTITIES = 0.7  # of an answer's budget; the rest is for their relations
RELATION = 190  # bytes of JSON


class Graph:
    """Everything this server can do with knowledge graphs."""

    def __init__(self, registries: Tenants, open_file: OpenFile, sessions: Sessions) -> None:
        self._registries = registries
        self._files = OpenFiles(open_file)
        self._sessions = sessions
        self._guard = threading.Lock()
        self._healed: set[str] = set()
        self.tidying = Tidying("graph_words", self._files.all)
        sessions.on_end(self.forget_sessions)

    def open_local(self) -> None:
        """Open the local user's registry now, so that a damaged or newer one is refused at the start."""
        self._place(LOCAL_USER)

    def close(self) -> None:
        self._files.close()

    def forget_sessions(self, user: str, session_ids: Sequence[str]) -> None:
        """These sessions are over: they work in no project any more."""
        with self._place(user).registry.write() as tx:
            storage.clear_active_sessions(tx, session_ids)

    # Projects

    def projects(self, caller: Caller, status: Status | None) -> Projects:
        with self._place(caller.user).registry.read() as tx:
            return Projects(storage.projects(tx, status))

    def create_project(self, caller: Caller, session: Session, name: str, description: str) -> Project:
        """Make a project with a file of its own and work in it. Raises Conflict if the name is taken."""
        with self._sessions.keeping(caller.user, session):
            project = self._make_project(caller, name, description)
            with self._place(caller.user).registry.write() as tx:
                storage.set_active(tx, session.id, project.id)
        return project

    def _make_project(self, caller: Caller, name: str, description: str) -> Project:
        if not SLUG.fullmatch(name):
            raise Invalid(
                "A project's name has 1 to 64 of a-z, 0-9, '.', '_' and '-', and starts with a letter or a digit.",
                field="name",
            )
        place, id_ = self._place(caller.user), str(uuid4())
        path = place.file(id_, "active")
        with place.registry.write() as tx:
            if taken := storage.project(tx, name):
                use = "switch_project works in it" if taken.status == "active" else "restore_project brings it back"
                raise Conflict(f"There is a project called {name!r} already; {use}.", field="name")
            self._files.get(path, place.lock(id_), make=True)
            return storage.add_project(tx, id_, name, description, place.relative(path))

    def switch_project(self, caller: Caller, session: Session, name: str) -> ProjectNews:
        """Work in a project from now on, for the rest of the session."""
        with self._sessions.keeping(caller.user, session), self._place(caller.user).registry.write() as tx:
            project = _active_one(tx, name)
            storage.set_active(tx, session.id, project.id)
        return ProjectNews(project, f"Working in {name!r} now.")

    def current_project(self, caller: Caller, session: Session) -> ProjectNews:
        with self._place(caller.user).registry.read() as tx:
            project = storage.active(tx, session.id)
        return ProjectNews(project, f"Working in {project.name!r}." if project else NO_PROJECT)

    def archive_project(self, caller: Caller, name: str) -> ProjectNews:
        """Put a project away, data and all. It is nobody's active project any more."""
        project = self._moved(caller, name, "active", "archived")
        return ProjectNews(project, f"{name!r} is archived. restore_project brings it back.")

    def restore_project(self, caller: Caller, name: str) -> Project:
        return self._moved(caller, name, "archived", "active")

    def delete_project(self, caller: Caller, name: str) -> ProjectNews:
        """Delete a project and all its data for good."""
        place = self._place(caller.user)
        with place.registry.write() as tx:
            project = _existing(tx, name)
            storage.remove_project(tx, project.id)
            # From here on a crash is finished at the next start: a project with a mark is being deleted.
            mark = place.mark(project.id)
            mark.touch()
        with suppress(NotFound):  # a lost file is gone already
            self._taken(place, project.id, project.status).remove()
        for left in (place.lock(project.id), mark):
            left.unlink(missing_ok=True)
        return ProjectNews(None, f"{name!r} is deleted, with all its data.")

    def _moved(self, caller: Caller, name: str, before: Status, after: Status) -> Project:
        """Move a project's file and say so in the registry. A crash in between is mended at the next start."""
        place = self._place(caller.user)
        moved: list[tuple[Path, Path]] = []
        try:
            with place.registry.write() as tx:
                project = _existing_as(tx, name, before)
                path, target = place.file(project.id, before), place.file(project.id, after)
                storage.set_status(tx, project.id, after, place.relative(target))
                storage.clear_active_project(tx, project.id)
                self._taken(place, project.id, before).move(target)
                moved.append((target, path))
                return _existing(tx, name)
        except BaseException:
            for target, path in moved:  # the registry could not be written: the file goes back
                target.replace(path)
            raise

    def _taken(self, place: Place, project_id: str, status: Status) -> Database:
        """A project's file, for whoever moves or removes it: nobody here gets it any more."""
        path = place.file(project_id, status)
        db = self._files.get(path, place.lock(project_id))
        self._files.forget(path)
        return db

    # What a project knows

    def create_entities(
        self, caller: Caller, session: Session, project: str | None, new: Sequence[NewEntity]
    ) -> Created:
        """All of them or, if anything fails, none. A name that exists adds nothing and is reported."""
        with self._project(caller, session, project).write() as tx:
            made = [(one.name, storage.add_entity(tx, one)) for one in new]
        return _shown(Created([entity for _, entity in made if entity], [name for name, entity in made if not entity]))

    def add_observations(
        self, caller: Caller, session: Session, project: str | None, facts: Sequence[Facts]
    ) -> Observed:
        """Raises NotFound naming the entities that do not exist, and adds nothing then."""
        added, skipped = [], []
        with self._project(caller, session, project).write() as tx:
            ids = _known(tx, (fact.entity_name for fact in facts))
            for fact in facts:
                for content in fact.contents:
                    observation = storage.add_observation(tx, ids[fact.entity_name], fact.entity_name, content)
                    if observation:
                        added.append(observation)
                    else:
                        skipped.append(KnownObservation(fact.entity_name, content))
            storage.touch(tx, {ids[one.entity_name] for one in added})
        return _shown(Observed(added, skipped))

    def create_relations(self, caller: Caller, session: Session, project: str | None, ties: Sequence[Tie]) -> Related:
        """Raises NotFound naming the entities that do not exist, and adds nothing then."""
        added, skipped = [], []
        with self._project(caller, session, project).write() as tx:
            ids = _known(tx, (name for tie in ties for name in (tie.source, tie.target)))
            for tie in ties:
                relation = storage.add_relation(tx, ids[tie.source], ids[tie.target], tie)
                if relation:
                    added.append(relation)
                else:
                    skipped.append(tie)
        return _shown(Related(added, skipped))

    def delete_entities(
        self, caller: Caller, session: Session, project: str | None, names: Sequence[str]
    ) -> DeletedCount:
        """With their observations and relations. A name nobody has is no error: it is gone."""
        with self._project(caller, session, project).write() as tx:
            ids = storage.ids_of(tx, dict.fromkeys(names))
            storage.delete_entities(tx, ids.values())
        return DeletedCount(len(ids))

    def delete_observations(
        self, caller: Caller, session: Session, project: str | None, facts: Sequence[Facts]
    ) -> DeletedCount:
        count = 0
        with self._project(caller, session, project).write() as tx:
            ids = storage.ids_of(tx, {fact.entity_name for fact in facts})
            for fact in facts:
                if fact.entity_name in ids:
                    count += storage.delete_observations(tx, ids[fact.entity_name], fact)
            if count:
                storage.touch(tx, ids.values())
        return DeletedCount(count)

    def delete_relations(
        self, caller: Caller, session: Session, project: str | None, ties: Sequence[Tie]
    ) -> DeletedCount:
        count = 0
        with self._project(caller, session, project).write() as tx:
            ids = storage.ids_of(tx, {name for tie in ties for name in (tie.source, tie.target)})
            for tie in ties:
                if tie.source in ids and tie.target in ids:
                    count += storage.delete_relation(tx, ids[tie.source], ids[tie.target], tie.relation_type)
        return DeletedCount(count)

    def search(self, caller: Caller, session: Session, project: str | None, query: str, limit: int) -> Nodes:
        """The entities that match best by their names, types and observations, with what they are related to."""
        if not query:
            raise Invalid("Give words to look for. read_graph reads everything.", field="query")
        with self._project(caller, session, project).read() as tx:
            scores = finding.by_words(storage.WordIndex(tx), query, max(BY_WORDS, limit)).scores()
            best = sorted(scores, key=lambda number: (-scores[number], number))[:limit]
            ids = storage.ids_by_number(tx, best)
            return _nodes(tx, [ids[number] for number in best], "Narrow the query or lower the limit.")

    def open_nodes(
        self, caller: Caller, session: Session, project: str | None, names: Sequence[str], skip: int
    ) -> Nodes:
        """The entities with these names; of each, the observations after the first `skip`."""
        with self._project(caller, session, project).read() as tx:
            ids = storage.ids_of(tx, dict.fromkeys(names))
            wanted = [ids[name] for name in dict.fromkeys(names) if name in ids]
            return _nodes(tx, wanted, "Ask for fewer names.", skip)

    def read_graph(self, caller: Caller, session: Session, project: str | None, offset: int) -> Nodes:
        """Everything, a page at a time: entities from a position on, each with the relations that start at it."""
        with self._project(caller, session, project).read() as tx:
            page = within_budget(storage.entities_after(tx, offset), _placed_size)
            relations = storage.relations_from(tx, [one.entity.id for one in page], MOST_RELATIONS)
            last = page[-1].position if page else offset
            is_more = any(storage.entities_after(tx, last))
        entities, long = _readable([one.entity for one in page])
        notices = [
            f"There is more: call read_graph with offset {last}." if is_more else "",
            _relations_left_out(relations, sum(one.relations for one in page)),
            long,
        ]
        return Nodes(entities, relations, _joined(notices))

    # Moving in and out

    def pages(self, caller: Caller, project: str) -> Iterator[Nodes]:
        """A whole project, a page at a time, as it stands now."""
        with self._named(caller, project).read() as tx:
            entities = (placed.entity for placed in storage.entities_after(tx, 0))
            while some := list(islice(entities, STEP)):
                yield Nodes(some, storage.relations_from(tx, [entity.id for entity in some]))

    def add_graph(self, caller: Caller, project: str, entities: Sequence[NewEntity], ties: Sequence[Tie]) -> Imported:
        """Add a graph to a project, which is made if it is missing: all of it, or nothing.

        What is known already stays as it is. A relation whose ends are unknown is left out and counted.
        """
        with suppress(Conflict):
            self._make_project(caller, project, "")
        with self._named(caller, project).write() as tx:
            added = [storage.add_entity(tx, entity) for entity in entities]
            ids = storage.ids_of(tx, {entity.name for entity in entities} | {name for tie in ties for name in tie.ends})
            late = [
                storage.add_observation(tx, ids[entity.name], entity.name, content)
                for entity, new in zip(entities, added, strict=True)
                if new is None
                for content in entity.observations
            ]
            whole = [tie for tie in ties if tie.source in ids and tie.target in ids]
            related = [storage.add_relation(tx, ids[tie.source], ids[tie.target], tie) for tie in whole]
        first = [len(entity.observations) for entity in added if entity]
        return Imported(
            entities=len(first),
            observations=sum(first) + sum(one is not None for one in late),
            relations=sum(one is not None for one in related),
            known=added.count(None) + related.count(None),
            dangling=len(ties) - len(whole),
        )

    # Files

    def _named(self, caller: Caller, name: str) -> Database:
        place = self._place(caller.user)
        with place.registry.read() as tx:
            id_ = _active_one(tx, name).id
        return self._files.get(place.file(id_, "active"), place.lock(id_))

    def _project(self, caller: Caller, session: Session, name: str | None) -> Database:
        """The file of the project named, or of the session's active one."""
        place = self._place(caller.user)
        with place.registry.read() as tx:
            project = _active_one(tx, name) if name is not None else storage.active(tx, session.id)
        if project is None:
            raise NotFound(NO_PROJECT, word="no_active_project")
        return self._files.get(place.file(project.id, "active"), place.lock(project.id))

    def _place(self, user: str) -> Place:
        place = Place(self._registries.database(user), self._registries.folder(user))
        with self._guard:
            is_new = user not in self._healed
            self._healed.add(user)
        if is_new:
            heal(place)
        return place


def _existing(tx: Read, name: str) -> Project:
    project = storage.project(tx, name)
    if project is None:
        raise NotFound(f"There is no project called {name!r}. list_projects shows what there is.")
    return project


def _existing_as(tx: Read, name: str, status: Status) -> Project:
    project = _existing(tx, name)
    if project.status != status:
        raise Conflict(f"{name!r} is {project.status} already.", field="name")
    return project


def _active_one(tx: Read, name: str) -> Project:
    project = _existing(tx, name)
    if project.status == "archived":
        raise Conflict(f"The project {name!r} is archived. restore_project brings it back.", field="name")
    return project


def _known(tx: Read, names: Iterable[str]) -> dict[str, str]:
    wanted = dict.fromkeys(names)
    ids = storage.ids_of(tx, wanted)
    if missing := [name for name in wanted if name not in ids]:
        listed = ", ".join(repr(name) for name in missing[:10])
        raise NotFound(f"No such entities: {listed}. Nothing was added; create_entities makes them.", missing=missing)
    return ids


def _nodes(tx: Read, ids: Sequence[str], advice: str, skip: int = 0) -> Nodes:
    found = [replace(one, observations=one.observations[skip:]) for one in storage.entities(tx, ids)]
    fitting = within_budget(found, _size, FOR_ENTITIES)
    touching = storage.relations_touching(tx, [entity.id for entity in fitting], MOST_RELATIONS)
    relations = within_budget(touching, _json_size, 1 - FOR_ENTITIES)
    left_out = len(found) - len(fitting)
    entities, long = _readable(fitting, skip)
    notices = [
        f"{left_out} more would be too long to show at once. {advice}" if left_out else "",
        _relations_left_out(relations, len(touching)),
        long,
    ]
    return Nodes(entities, relations, _joined(notices))


def _readable(entities: list[Entity], skip: int = 0) -> tuple[list[Entity], str]:
    """Of an entity that alone is too long to show: as many observations as fit, and how to get the others."""
    if len(entities) != 1:
        return entities, ""
    (entity,) = entities
    shown = within_budget(entity.observations, _text_size)
    if len(shown) == len(entity.observations):
        return entities, ""
    further = f"call open_nodes with names [{_quoted(entity.name)}] and skip_observations {skip + len(shown)}."
    return [replace(entity, observations=shown)], f"{_quoted(entity.name)} has more observations: {further}"


A = TypeVar("A", Created, Observed, Related)


def _shown(answer: A) -> A:
    """An answer to a write that a model can take. What is left out of it is done all the same."""
    lists = [field.name for field in fields(answer) if field.name != "notice"]
    items = [(name, one) for name in lists for one in getattr(answer, name)]
    kept = within_budget(items, lambda item: _json_size(item[1]))
    if len(kept) == len(items):
        return answer
    said = (
        f"All is done, and too long to show: {len(items) - len(kept)} items are left out here. open_nodes shows them."
    )
    shown = {name: [one for kind, one in kept if kind == name] for name in lists}
    return replace(answer, notice=said, **shown)


def _relations_left_out(shown: Sequence[object], total: int) -> str:
    return f"Only the {len(shown)} oldest relations are shown. Ask for fewer entities." if total > len(shown) else ""


def _joined(notices: Iterable[str]) -> str | None:
    return " ".join(filter(None, notices)) or None


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


# About how many bytes of JSON things make


def _json_size(item: Entity | Observation | Relation | KnownObservation | Tie | str) -> int:
    if isinstance(item, Entity):
        return _size(item)
    return 20 + len(item.encode()) if isinstance(item, str) else 80 + sum(map(_text_size, vars(item).values()))


def _size(entity: Entity) -> int:
    names = len(entity.name.encode()) + len(entity.entity_type.encode())
    return 200 + names + sum(map(_text_size, entity.observations))


def _text_size(text: str) -> int:
    return len(text.encode()) + 4


def _placed_size(placed: storage.Placed) -> int:
    return _size(placed.entity) + min(placed.relations, MOST_RELATIONS) * RELATION
