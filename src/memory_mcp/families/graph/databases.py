"""Where projects are stored: each in a file, or in PostgreSQL."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from memory_mcp.engines.transactions import PartedDatabases, UserDatabase, UserDatabases, Write
from memory_mcp.families.graph import storage
from memory_mcp.families.graph.model import Project, Status

PROJECTS, ARCHIVE = "projects", "archive"  # folders in a user's folder


class ProjectDatabases(Protocol):
    """The registries of all users, and a database for each project."""

    def has_registry(self, user: str) -> bool: ...

    def registry(self, user: str) -> UserDatabase:
        """At first use, leftovers of a crash are repaired."""

    def create(self, tx: Write, user: str, project_id: str) -> str:
        """Create the database of a new project. Returns what the registry has as its path."""

    def open(self, user: str, project: Project) -> UserDatabase:
        """Raises NotFound if it is lost."""

    def path(self, user: str, project: Project, status: Status) -> str:
        """What the registry has as its path."""

    def move(self, user: str, project: Project, after: Status) -> None:
        """Archive or restore a project, as the last step of a write of the registry."""

    def check_again(self, user: str) -> None:
        """At the next use of this user's registry, look again for leftovers of a crash."""

    def mark_deleted(self, tx: Write, user: str, project: Project) -> None:
        """Delete a project's data, or record that it is to be deleted, in the write of the registry."""

    def delete(self, user: str, project: Project) -> None:
        """Delete what is left of a project after that. Raises Unavailable if that has to wait for the next start."""

    def opened(self) -> Sequence[UserDatabase]:
        """Those whose full-text indexes are merged now and then."""

    def close(self) -> None: ...


def file_path(project_id: str, status: Status) -> str:
    """The path of a project's file below its user's folder; PostgreSQL has it, too, for a move to files."""
    return f"{PROJECTS if status == 'active' else ARCHIVE}/{project_id}.db"


@dataclass(frozen=True)
class ProjectRows:
    """In PostgreSQL. A project is a part of its user's rows; only the registry knows whether it is archived."""

    registries: UserDatabases
    projects: PartedDatabases

    def has_registry(self, user: str) -> bool:
        return self.registries.exists(user)

    def registry(self, user: str) -> UserDatabase:
        return self.registries.database(user)

    def create(self, tx: Write, user: str, project_id: str) -> str:
        with self.projects.in_new_part(tx, user, project_id):
            storage.add_project_row(tx)
        return file_path(project_id, "active")

    def open(self, user: str, project: Project) -> UserDatabase:
        return self.projects.part(user, project.id)

    def path(self, user: str, project: Project, status: Status) -> str:
        return file_path(project.id, status)

    def move(self, user: str, project: Project, after: Status) -> None:
        """Its rows stay where they are."""

    def check_again(self, user: str) -> None:
        """Nothing is left after a crash."""

    def mark_deleted(self, tx: Write, user: str, project: Project) -> None:
        self.projects.delete_part(tx, user, project.id)

    def delete(self, user: str, project: Project) -> None:
        """All is deleted already."""

    def opened(self) -> Sequence[UserDatabase]:
        return ()

    def close(self) -> None: ...
