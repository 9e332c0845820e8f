import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from memory_mcp.access import Tenants
from memory_mcp.caller import LOCAL_USER, Caller
from memory_mcp.errors import Conflict, Invalid, NotFound
from memory_mcp.families import within_budget
from memory_mcp.graph import storage
from memory_mcp.graph.model import (
    Created,
    DeletedCount,
    Entity,
    Facts,
    Known,
    KnownRelation,
    NewEntity,
    Nodes,
    Observed,
    Project,
    Projects,
    Related,
    Status,
    TakenIn,
    Tie,
    Told,
)
from memory_mcp.search import finding
from memory_mcp.sessions import Session, Sessions
from memory_mcp.sqlite import Database, Read
from memory_mcp.sqlite.tidying import Tidying

PROJECTS, ARCHIVE, LOCKS = "projects", "archive", "locks"
DELETED = ".deleted"  # what the name of a mark ends with
SLUG = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
NO_PROJECT = "No active project. Use switch_project to select one. Or name it in the call: `project`."
BY_WORDS = 200  # entities that words bring into the running
MOST_OPEN = 64  # projects' files
IDLE_SECONDS = 5.0  # after which one of more than those is closed
STEP = 150  # entities read at a time
MOST_RELATIONS = 400  # in one answer
RELATION = 190  # bytes of JSON


@dataclass
class _Opened:
    """A project's file, and when it was last asked for."""

    db: Database
    used_at: float = 0.0


@dataclass(frozen=True)
class _Place:
    """Where one user's projects lie."""

    registry: Database
    folder: Path

    def relative(self, path: Path) -> str:
        return path.relative_to(self.folder).as_posix()

    def lock(self, project_id: str) -> Path:
        """Where writers of a project wait, wherever its file lies."""
        return self.folder / LOCKS / f"{project_id}.lock"

    def mark(self, project_id: str) -> Path:
        """What says that a project is being deleted."""
        return self.folder / LOCKS / f"{project_id}{DELETED}"

    def file(self, project_id: str, status: Status) -> Path:
        return self.folder / (PROJECTS if status == "active" else ARCHIVE) / f"{project_id}.db"


class Graph:
    """Everything this server can do with knowledge graphs."""

    def __init__(
        self, registries: Tenants, open_file: Callable[[Path, Path, bool], Database], sessions: Sessions
    ) -> None:
        """`open_file` opens a project's file, and makes it if told so."""
        self._registries = registries
        self._open_file = open_file
        self._sessions = sessions
        self._guard = threading.Lock()
        self._opened: dict[Path, _Opened] = {}
        self._healed: set[str] = set()
        self.tidying = Tidying("graph_words", self._all_opened)
        sessions.on_end(self.forget_sessions)

    def open_local(self) -> None:
        """Open the local user's registry now, so that a damaged or newer one is refused at the start."""
        self._place(LOCAL_USER)

    def _all_opened(self) -> list[Database]:
        with self._guard:
            return [opened.db for opened in self._opened.values()]

    def close(self) -> None:
        with self._guard:
            for opened in self._opened.values():
                opened.db.close()
            self._opened.clear()

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
            self._open(path, place.lock(id_), make=True)
            return storage.add_project(tx, id_, name, description, place.relative(path))

    def switch_project(self, caller: Caller, session: Session, name: str) -> Told:
        """Work in a project from now on, for the rest of the session."""
        with self._sessions.keeping(caller.user, session), self._place(caller.user).registry.write() as tx:
            project = _active_one(tx, name)
            storage.set_active(tx, session.id, project.id)
        return Told(project, f"Working in {name!r} now.")

    def current_project(self, caller: Caller, session: Session) -> Told:
        with self._place(caller.user).registry.read() as tx:
            project = storage.active(tx, session.id)
        return Told(project, f"Working in {project.name!r}." if project else NO_PROJECT)

    def archive_project(self, caller: Caller, name: str) -> Told:
        """Put a project away, data and all. It is nobody's active project any more."""
        project = self._moved(caller, name, "active", "archived")
        return Told(project, f"{name!r} is archived. restore_project brings it back.")

    def restore_project(self, caller: Caller, name: str) -> Project:
        return self._moved(caller, name, "archived", "active")

    def delete_project(self, caller: Caller, name: str) -> Told:
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
        return Told(None, f"{name!r} is deleted, with all its data.")

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

    def _taken(self, place: _Place, project_id: str, status: Status) -> Database:
        """A project's file, for whoever moves or removes it: nobody here gets it any more."""
        path = place.file(project_id, status)
        db = self._open(path, place.lock(project_id))
        with self._guard:
            self._opened.pop(path, None)
        return db

    # What a project knows

    def create_entities(
        self, caller: Caller, session: Session, project: str | None, new: Sequence[NewEntity]
    ) -> Created:
        """All of them or, if anything fails, none. A name that exists adds nothing and is reported."""
        with self._project(caller, session, project).write() as tx:
            made = [(one.name, storage.add_entity(tx, one)) for one in new]
        return Created([entity for _, entity in made if entity], [name for name, entity in made if entity is None])

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
                        skipped.append(Known(fact.entity_name, content))
            storage.touch(tx, {ids[one.entity_name] for one in added})
        return Observed(added, skipped)

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
                    skipped.append(KnownRelation(tie.source, tie.target, tie.relation_type))
        return Related(added, skipped)

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

    def open_nodes(self, caller: Caller, session: Session, project: str | None, names: Sequence[str]) -> Nodes:
        with self._project(caller, session, project).read() as tx:
            ids = storage.ids_of(tx, dict.fromkeys(names))
            wanted = [ids[name] for name in dict.fromkeys(names) if name in ids]
            return _nodes(tx, wanted, "Ask for fewer names.")

    def read_graph(self, caller: Caller, session: Session, project: str | None, offset: int) -> Nodes:
        """Everything, a page at a time: entities from a position on, each with the relations that start at it."""
        with self._project(caller, session, project).read() as tx:
            placed = _page(tx, offset)
            shown = within_budget(placed, _placed_size)
            ids = [one.entity.id for one in shown]
            relations = storage.relations_from(tx, ids, MOST_RELATIONS)
        notices = [
            f"There is more: call read_graph with offset {shown[-1].position}." if len(shown) < len(placed) else "",
            _relations_left_out(relations, sum(one.relations for one in shown)),
        ]
        return Nodes([one.entity for one in shown], relations, " ".join(filter(None, notices)) or None)

    # Moving in and out

    def pages(self, caller: Caller, project: str) -> Iterator[Nodes]:
        """A whole project, a page at a time, as it stands now."""
        with self._named(caller, project).read() as tx:
            position = 0
            while placed := storage.entities_after(tx, position, STEP):
                entities = [one.entity for one in placed]
                yield Nodes(entities, storage.relations_from(tx, [entity.id for entity in entities]))
                position = placed[-1].position

    def take_in(self, caller: Caller, project: str, entities: Sequence[NewEntity], ties: Sequence[Tie]) -> TakenIn:
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
        return TakenIn(
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
        return self._open(place.file(id_, "active"), place.lock(id_))

    def _project(self, caller: Caller, session: Session, name: str | None) -> Database:
        """The file of the project named, or of the session's active one."""
        place = self._place(caller.user)
        with place.registry.read() as tx:
            project = _active_one(tx, name) if name is not None else storage.active(tx, session.id)
        if project is None:
            raise NotFound(NO_PROJECT, word="no_active_project")
        return self._open(place.file(project.id, "active"), place.lock(project.id))

    def _open(self, path: Path, lock: Path, *, make: bool = False) -> Database:
        with self._guard:
            opened = self._opened.get(path)
            if opened is None:
                self._close_idle()
                opened = self._opened[path] = _Opened(self._open_file(path, lock, make))
            opened.used_at = time.monotonic()
            return opened.db

    def _close_idle(self) -> None:
        """Files are few that a process may have open."""
        idle = sorted(self._opened, key=lambda path: self._opened[path].used_at)[:-MOST_OPEN]
        for path in idle:
            if time.monotonic() - self._opened[path].used_at > IDLE_SECONDS:
                self._opened.pop(path).db.close()

    def _place(self, user: str) -> _Place:
        place = _Place(self._registries.database(user), self._registries.folder(user))
        with self._guard:
            is_new = user not in self._healed
            self._healed.add(user)
        if is_new:
            _heal(place)
        return place


def _heal(place: _Place) -> None:
    """Bring registry and files together where a crash left them apart.

    While nobody else changes the registry, so that what a living process is about to do is not taken for a crash.
    """
    with place.registry.write() as tx:
        known = storage.projects(tx, None)
        for project in known:
            here, there = place.file(project.id, project.status), place.file(project.id, _other(project.status))
            if here.exists() and there.exists():  # it was copied, and not moved any more
                _remove(there)
            elif there.exists():
                storage.set_status(tx, project.id, _other(project.status), place.relative(there))
        _clear(place, {project.id for project in known})


def _clear(place: _Place, known: Set[str]) -> None:
    """Remove what crashes left of projects that were being deleted, made or moved."""
    for mark in (place.folder / LOCKS).glob(f"*{DELETED}"):
        id_ = mark.name.removesuffix(DELETED)
        for folder in (PROJECTS, ARCHIVE) if id_ not in known else ():  # else the registry could not be written
            _remove(place.folder / folder / f"{id_}.db")
        mark.unlink()
    for folder in (PROJECTS, ARCHIVE):
        for path in (place.folder / folder).glob("*.db*"):
            id_ = path.name.partition(".")[0]
            if path.suffix == ".part":
                path.unlink(missing_ok=True)
            elif path.suffix == ".db" and id_ not in known and storage.is_blank(path):
                _remove(path)


def _remove(path: Path) -> None:
    """A project's file, with all that may lie beside it."""
    for left in path.parent.glob(f"{path.name}*"):
        left.unlink(missing_ok=True)


def _other(status: Status) -> Status:
    return "archived" if status == "active" else "active"


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


def _page(tx: Read, position: int) -> list[storage.Placed]:
    """Entities from a position on: one more than fit into an answer, if there are so many."""
    placed: list[storage.Placed] = []
    while more := storage.entities_after(tx, position, STEP):
        placed += more
        position = more[-1].position
        if len(within_budget(placed, _placed_size)) < len(placed):
            break
    return placed


def _nodes(tx: Read, ids: Sequence[str], advice: str) -> Nodes:
    entities = storage.entities(tx, ids)
    shown = list(within_budget(entities, _size))
    relations = storage.relations_touching(tx, [entity.id for entity in shown], MOST_RELATIONS + 1)
    notices = [
        f"{len(entities) - len(shown)} more would be too long to show at once. {advice}" if entities != shown else "",
        _relations_left_out(relations[:MOST_RELATIONS], len(relations)),
    ]
    return Nodes(shown, relations[:MOST_RELATIONS], " ".join(filter(None, notices)) or None)


def _relations_left_out(shown: Sequence[object], total: int) -> str:
    return f"Only the {len(shown)} oldest relations are shown. Ask for fewer entities." if total > len(shown) else ""


def _size(entity: Entity) -> int:
    """About how many bytes of JSON it makes."""
    return 200 + len(entity.name.encode()) + sum(len(text.encode()) + 4 for text in entity.observations)


def _placed_size(placed: storage.Placed) -> int:
    return _size(placed.entity) + min(placed.relations, MOST_RELATIONS) * RELATION
