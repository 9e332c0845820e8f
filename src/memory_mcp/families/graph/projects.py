"""A user's projects: create, switch, archive, restore and delete them."""

import re
from collections.abc import Sequence
from uuid import uuid4

from memory_mcp.caller import LOCAL_USER, Caller
from memory_mcp.engines.transactions import Read, UserDatabase, Write
from memory_mcp.errors import Conflict, Invalid, NotFound, Unavailable
from memory_mcp.families.graph import answers, storage
from memory_mcp.families.graph.databases import ProjectDatabases
from memory_mcp.families.graph.model import Project, ProjectResult, Projects, Status
from memory_mcp.services.sessions import Session, Sessions
from memory_mcp.text.nearness import not_found, seen_by

SLUG = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
NEXT_TOOL = {"active": "switch_project works in it.", "archived": "restore_project brings it back."}
NO_PROJECT = "No active project."
CHOOSE_PROJECT = "Use switch_project to select one. Or name it in the call: `project`."


class ProjectOperations:
    """Operations on whole projects."""

    def __init__(self, databases: ProjectDatabases, sessions: Sessions) -> None:
        self._databases = databases
        self._sessions = sessions
        sessions.on_end(self.clear_active_projects)

    def open_local(self) -> None:
        """Open the local user's registry now, so that a damaged or newer one is reported at the start."""
        self._databases.registry(LOCAL_USER)

    def close(self) -> None:
        self._databases.close()

    def clear_active_projects(self, user: str, session_ids: Sequence[str]) -> None:
        """Called when sessions have ended: they have no active project any more."""
        if not self._databases.has_registry(user):
            return
        with self._databases.registry(user).write() as tx:
            storage.clear_active_sessions(tx, session_ids)

    def projects(self, caller: Caller, status: Status | None) -> Projects:
        with self._databases.registry(caller.user).read() as tx:
            return answers.listed(storage.projects(tx, status))

    def create_project(self, caller: Caller, session: Session, name: str, description: str) -> Project:
        """Create a project with a file of its own and work in it. Raises Conflict if the name is taken."""
        registry = self._databases.registry(caller.user)
        with self._sessions.hold_for_write(caller.user, session), registry.write() as tx:
            project = self._create_project(tx, caller, name, description)
            storage.set_active(tx, session.id, project.id)
        return project

    def _create_project(
        self,
        tx: Write,
        caller: Caller,
        name: str,
        description: str,
        *,
        any_name: bool = False,
        created_at: str | None = None,
    ) -> Project:
        if not (any_name and name):
            check_name(name)
        if taken := storage.project(tx, name):
            raise Conflict(f"There is a project called {name!r} already.", hint=NEXT_TOOL[taken.status], field="name")
        id_ = str(uuid4())
        path = self._databases.create(tx, caller.user, id_)
        return storage.add_project(tx, id_, name, description, path, created_at)

    def switch_project(self, caller: Caller, session: Session, name: str) -> ProjectResult:
        """Work in a project from now on, for the rest of the session."""
        registry = self._databases.registry(caller.user)
        with self._sessions.hold_for_write(caller.user, session), registry.write() as tx:
            project = _existing_active(tx, caller, name, "name")
            self._databases.open(caller.user, project)  # a damaged or lost file is an error now, not at the next call
            storage.set_active(tx, session.id, project.id)
        return ProjectResult(project, f"Working in {name!r} now.")

    def current_project(self, caller: Caller, session: Session) -> ProjectResult:
        with self._databases.registry(caller.user).read() as tx:
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
        with self._databases.registry(caller.user).write() as tx:
            project = existing(tx, caller, name)
            storage.remove_project(tx, project.id)
            self._databases.mark_deleted(tx, caller.user, project)
        try:
            self._databases.delete(caller.user, project)
        except Unavailable:
            return ProjectResult(
                None, f"{name!r} is deleted. Its file is in use or damaged, and is removed at the next start."
            )
        return ProjectResult(None, f"{name!r} is deleted, with all its data.")

    def _move(self, caller: Caller, name: str, before: Status, after: Status) -> Project:
        """Archive or restore a project: move its file, if it has one, and record that in the registry.

        The registry's lock is held while a file is copied, so that no other process mistakes an unfinished move for a
        crash. So while a large file is copied, no project of this user can be created, switched to, moved or deleted.
        Entities can be read and written meanwhile.
        """
        try:
            with self._databases.registry(caller.user).write() as tx:
                project = _existing_with(tx, caller, name, before)
                storage.set_status(tx, project.id, after, self._databases.path(caller.user, project, after))
                storage.clear_active_project(tx, project.id)
                self._databases.move(caller.user, project, after)
                return existing(tx, caller, name)
        except Unavailable:
            # The file may have been moved and the registry not written. The file's path decides.
            self._databases.check_again(caller.user)
            with self._databases.registry(caller.user).read() as tx:
                project = existing(tx, caller, name)
            if project.status != after:
                raise
            return project

    def _project(self, caller: Caller, session: Session | None, name: str | None) -> UserDatabase:
        """The named project, or the session's active one."""
        project = None
        with self._databases.registry(caller.user).read() as tx:
            if name is not None:
                project = _existing_active(tx, caller, name, "project")
            elif session is not None:
                project = storage.active(tx, session.id)
        if project is None:
            raise NotFound(NO_PROJECT, hint=CHOOSE_PROJECT, code="no_active_project")
        return self._databases.open(caller.user, project)


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
