"""The registry of a user's projects, and which session works in which."""

from collections.abc import Sequence

from memory_mcp.engines.transactions import Read, Write
from memory_mcp.families.graph.model import (
    Project,
    Status,
)
from memory_mcp.families.graph.storage.expressions import to_json, utc

_PROJECT = f"id, name, coalesce(description, ''), status, {utc('created_at')} AS created, {utc('updated_at')}"


def projects(tx: Read, status: Status | None) -> list[Project]:
    rows = tx.all(
        f"SELECT {_PROJECT} FROM projects WHERE status = coalesce(:status, status) ORDER BY created, name",
        {"status": status},
    )
    return [Project(*row) for row in rows]


def project(tx: Read, name: str) -> Project | None:
    row = tx.one(f"SELECT {_PROJECT} FROM projects WHERE name = :name", {"name": name})
    return Project(*row) if row else None


def add_project(tx: Write, id_: str, name: str, description: str, path: str, created_at: str | None = None) -> Project:
    """Without `created_at` it is created now."""
    created = created_at or tx.stamp
    tx.all(
        """
        INSERT INTO projects (id, name, description, db_path, status, created_at, updated_at)
        VALUES (:id, :name, :description, :path, 'active', :created, :now)
        """,
        {"id": id_, "name": name, "description": description, "path": path, "created": created, "now": tx.stamp},
    )
    return Project(id_, name, description, "active", created, tx.stamp)


def add_project_row(tx: Write) -> None:
    """In PostgreSQL, for a project without which none of its rows can be written."""
    tx.all("INSERT INTO project DEFAULT VALUES")


def has_project_row(tx: Read) -> bool:
    return tx.one("SELECT 1 FROM project") is not None


def set_status(tx: Write, id_: str, status: Status, path: str) -> None:
    tx.all(
        "UPDATE projects SET status = :status, db_path = :path, updated_at = :now WHERE id = :id",
        {"id": id_, "status": status, "path": path, "now": tx.stamp},
    )


def recorded_paths(tx: Read) -> dict[str, str]:
    """The path of each project's file in the registry, by its id."""
    return dict(tx.all("SELECT id, db_path FROM projects"))


def set_file(tx: Write, id_: str, new_id: str, path: str) -> None:
    """Give a project that another program made an id and a path as ours are."""
    tx.all("UPDATE projects SET id = :new, db_path = :path WHERE id = :id", {"id": id_, "new": new_id, "path": path})


def remove_project(tx: Write, id_: str) -> None:
    tx.all("DELETE FROM projects WHERE id = :id", {"id": id_})


def set_active(tx: Write, session_id: str, project_id: str) -> None:
    tx.all(
        """
        INSERT INTO active_projects (session_id, project_id) VALUES (:session, :project)
        ON CONFLICT (session_id) DO UPDATE SET project_id = excluded.project_id
        """,
        {"session": session_id, "project": project_id},
    )


def active(tx: Read, session_id: str) -> Project | None:
    row = tx.one(
        f"""
        SELECT {_PROJECT} FROM projects
        WHERE id = (SELECT project_id FROM active_projects WHERE session_id = :session)
        """,
        {"session": session_id},
    )
    return Project(*row) if row else None


def clear_active_project(tx: Write, project_id: str) -> None:
    """No session works in this project any more."""
    tx.all("DELETE FROM active_projects WHERE project_id = :project", {"project": project_id})


def clear_active_sessions(tx: Write, session_ids: Sequence[str]) -> None:
    tx.all(
        "DELETE FROM active_projects WHERE session_id IN (SELECT value FROM json_each(:sessions))",
        {"sessions": to_json(list(session_ids))},
    )
