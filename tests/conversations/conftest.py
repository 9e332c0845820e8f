from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from memory_mcp.app import App, answer_hook
from memory_mcp.caller import ALL_SCOPES, LOCAL_USER, Caller
from memory_mcp.families.notes.model import Filter, Note, NoteQuery
from tests.postgres import ENGINES
from tests.postgres import database_url as database_url

TRANSCRIPTS = Path(__file__).parent / "transcripts"

Hook = Callable[..., dict[str, Any]]


@pytest.fixture
def options() -> dict[str, Any]:
    """With PostgreSQL, the families that it can have."""
    return {"families": "vault,notes,graph,recall"} if "postgres" in ENGINES else {}


@pytest.fixture
def caller(app: App) -> Caller:
    return Caller(LOCAL_USER, ALL_SCOPES, frozenset(app.families))


@pytest.fixture
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a git repository whose remote is called billing."""
    folder = tmp_path_factory.mktemp("checkout")
    (folder / ".git").mkdir()
    (folder / ".git" / "config").write_text('[remote "origin"]\n\turl = git@example.com:acme/Billing.git\n')
    return folder


@pytest.fixture
def hook(app: App, project: Path) -> Hook:
    """Call a hook in the project, as a client does."""

    def call(event: str, *, client: str = "claude-code", session: str = "one", **payload: Any) -> dict[str, Any]:
        named = {"session_id": session, "cwd": str(project), "hook_event_name": event}
        return answer_hook(app, event, named | payload, client)

    return call


def given(answer: Mapping[str, Any]) -> str:
    """What the model gets; empty for nothing."""
    output = answer["output"]
    return "" if output is None else str(output["hookSpecificOutput"]["additionalContext"])


def stored(app: App, caller: Caller, namespace: str = "conversations/billing") -> list[Note]:
    """The notes of a namespace, in the order of the conversation."""
    hits, _ = app.notes.reader.hits(caller, NoteQuery("", Filter(namespace), limit=1000))
    return [app.notes.reader.read(caller, hit.id, include_links=True) for hit in reversed(hits)]
