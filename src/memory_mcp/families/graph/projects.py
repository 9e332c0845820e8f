"""A user's projects: create, switch, archive, restore and delete them."""

import re
import threading
from collections.abc import Sequence
from contextlib import suppress
from uuid import uuid4

from memory_mcp.access import Tenants
from memory_mcp.caller import LOCAL_USER, Caller
from memory_mcp.engines.sqlite import Database
from memory_mcp.engines.transactions import Read, Write
from memory_mcp.errors import Conflict, Invalid, NotFound, Unavailable
from memory_mcp.families.graph import answers, storage
from memory_mcp.families.graph.files import GraphFolder, OpenFile, OpenFiles, repair
from memory_mcp.families.graph.model import Project, ProjectResult, Projects, Status
from memory_mcp.nearness import not_found, seen_by
from memory_mcp.sessions import Session, Sessions

SLUG = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
NEXT_TOOL = {"active": "switch_project works in it.", "archived": "restore_project brings it back."}
NO_PROJECT = "No active project."
CHOOSE_PROJECT = "Use switch_project to select one. Or name it in the call: `project`."


class ProjectOperations:
    """Operations on whole projects."""

    def __init__(self, registries: Tenants, open_file: OpenFile, sessions: Sessions) -> None:
        self._registries = registries
        self._files = OpenFiles(open_file)
        self._sessions = sessions
        self._repair_lock = threading.Lock()
        self._repaired_users: set[str] = set()
        sessions.on_end(self.clear_active_projects)

    def open_local(self) -> None:
        """Open the local user's registry now, so that a damaged or newer one is reported at the start."""
        self._folder(LOCAL_USER)

    def close(self) -> None:
        self._files.close()

    def clear_active_projects(self, user: str, session_ids: Sequence[str]) -> None:
        """Called when sessions have ended: they have no active project any more."""
        if not self._registries.exists(user):
            return
        with self._registries.database(user).write() as tx:
            storage.clear_active_sessions(tx, session_ids)

    def projects(self, caller: Caller, status: Status | None) -> Projects:
        with self._folder(caller.user).registry.read() as tx:
            return answers.listed(storage.projects(tx, status))

    def create_project(self, caller: Caller, session: Session, name: str, description: str) -> Project:
        """Create a project with a file of its own and work in it. Raises Conflict if the name is taken."""
        graph_folder = self._folder(caller.user)
        with self._sessions.hold_for_write(caller.user, session), graph_folder.registry.write() as tx:
            project = self._create_project(tx, graph_folder, name, description)
            storage.set_active(tx, session.id, project.id)
        return project

    def _create_project(
        self, tx: Write, graph_folder: GraphFolder, name: str, description: str, *, any_name: bool = False
    ) -> Project:
        if not (any_name and name):
            check_name(name)
        if taken := storage.project(tx, name):
            raise Conflict(f"There is a project called {name!r} already.", hint=NEXT_TOOL[taken.status], field="name")
        id_ = str(uuid4())
        path = graph_folder.file(id_, "active")
        self._files.get(path, graph_folder.lock(id_), make=True)
        return storage.add_project(tx, id_, name, description, graph_folder.relative(path))

    def switch_project(self, caller: Caller, session: Session, name: str) -> ProjectResult:
        """Work in a project from now on, for the rest of the session."""
        graph_folder = self._folder(caller.user)
        with self._sessions.hold_for_write(caller.user, session), graph_folder.registry.write() as tx:
            project = _existing_active(tx, caller, name, "name")
            self._open(graph_folder, project)  # a damaged or lost file is an error now, not at the next call
            storage.set_active(tx, session.id, project.id)
        return ProjectResult(project, f"Working in {name!r} now.")

    def current_project(self, caller: Caller, session: Session) -> ProjectResult:
        with self._folder(caller.user).registry.read() as tx:
            project = storage.active(tx, session.id)
        return ProjectResult(project, f"Working in {project.name!r}." if project else f"{NO_PROJECT} {CHOOSE_PROJECT}")

    def archive_project(self, caller: Caller, name: str) -> ProjectResult:
        """Archive a project with its data. No session has it as its active project afterwards."""
        project = self._move(caller, name, "active", "archived")
        return ProjectResult(project, f"{name!r} is archived. restore_project brings it back.")

    def restore_project(self, caller: Caller, name: str) -> Project:
        return self._move(caller, name, "archived", "active")

    def delete_project(self, caller: Caller, name: str) -> ProjectResult:
        """Delete a project and all its data for good."""
        graph_folder = self._folder(caller.user)
        with graph_folder.registry.write() as tx:
            project = existing(tx, caller, name)
            storage.remove_project(tx, project.id)
            # If a step fails from here on, the next start finishes it: a project with a mark is being deleted.
            mark = graph_folder.mark(project.id)
            mark.parent.mkdir(mode=0o700, exist_ok=True)
            mark.touch()
        try:
            with suppress(NotFound):  # the file is lost already
                self._detach(graph_folder, project.id, project.status).remove()
        except Unavailable:
            return ProjectResult(
                None, f"{name!r} is deleted. Its file is in use or damaged, and is removed at the next start."
            )
        for left in (graph_folder.lock(project.id), mark):
            left.unlink(missing_ok=True)
        return ProjectResult(None, f"{name!r} is deleted, with all its data.")

    def _move(self, caller: Caller, name: str, before: Status, after: Status) -> Project:
        """Move a project's file, and record that in the registry.

        The registry's lock is held while the file is copied, so that no other process mistakes an unfinished move for a
        crash. So while a large file is copied, no project of this user can be created, switched to, moved or deleted.
        Entities can be read and written meanwhile.
        """
        graph_folder = self._folder(caller.user)
        try:
            with graph_folder.registry.write() as tx:
                project = _existing_with(tx, caller, name, before)
                target = graph_folder.file(project.id, after)
                storage.set_status(tx, project.id, after, graph_folder.relative(target))
                storage.clear_active_project(tx, project.id)
                self._detach(graph_folder, project.id, before).move(target)
                return existing(tx, caller, name)
        except Unavailable:
            # The file may have been moved and the registry not written. The file's path decides.
            self._repaired_users.discard(caller.user)
            with self._folder(caller.user).registry.read() as tx:
                project = existing(tx, caller, name)
            if project.status != after:
                raise
            return project

    def _detach(self, graph_folder: GraphFolder, project_id: str, status: Status) -> Database:
        """A project's file, to move or remove it. No other call in this process gets it afterwards."""
        path = graph_folder.file(project_id, status)
        db = self._files.get(path, graph_folder.lock(project_id))
        self._files.detach(path)
        return db

    def _project(self, caller: Caller, session: Session | None, name: str | None) -> Database:
        """The file of the named project, or of the session's active one."""
        graph_folder = self._folder(caller.user)
        project = None
        with graph_folder.registry.read() as tx:
            if name is not None:
                project = _existing_active(tx, caller, name, "project")
            elif session is not None:
                project = storage.active(tx, session.id)
        if project is None:
            raise NotFound(NO_PROJECT, hint=CHOOSE_PROJECT, code="no_active_project")
        return self._open(graph_folder, project)

    def _open(self, graph_folder: GraphFolder, project: Project) -> Database:
        return self._files.get(graph_folder.file(project.id, "active"), graph_folder.lock(project.id))

    def _folder(self, user: str) -> GraphFolder:
        """The folder of a user's projects. At first use, leftovers of a crash are repaired."""
        graph_folder = GraphFolder(self._registries.database(user), self._registries.folder(user))
        if user not in self._repaired_users:
            with self._repair_lock:
                if user not in self._repaired_users:  # by another thread
                    repair(graph_folder)
                    self._repaired_users.add(user)
        return graph_folder


def check_name(name: str) -> None:
    if not SLUG.fullmatch(name):
        raise Invalid(
            "A project's name has 1 to 64 of a-z, 0-9, '.', '_' and '-', and starts with a letter or a digit.",
            field="name",
        )


def existing(tx: Read, caller: Caller, name: str, field: str = "name") -> Project:
    project = storage.project(tx, name)
    if project is None:
        raise not_found(
            f"There is no project called {name!r}.",
            name,
            seen_by(caller, lambda: (project.name for project in storage.projects(tx, None))),
            hint="list_projects shows what there is.",
            field=field,
        )
    return project


def _existing_with(tx: Read, caller: Caller, name: str, status: Status) -> Project:
    project = existing(tx, caller, name)
    if project.status != status:
        raise Conflict(f"{name!r} is {project.status} already.", hint=NEXT_TOOL[project.status], field="name")
    return project


def _existing_active(tx: Read, caller: Caller, name: str, field: str) -> Project:
    project = existing(tx, caller, name, field)
    if project.status == "archived":
        raise Conflict(f"The project {name!r} is archived.", hint=NEXT_TOOL["archived"], field=field)
    return project
