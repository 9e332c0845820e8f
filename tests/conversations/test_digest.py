"""What a conversation gets at its start."""

from pathlib import Path
from typing import Any

import pytest

from memory_mcp.app import App
from memory_mcp.caller import Caller
from memory_mcp.families.graph.model import NamedRelation, NewEntity
from memory_mcp.families.notes.addresses import note_uri
from memory_mcp.families.notes.model import Author, NewNote, Note
from memory_mcp.families.stores.model import Metadata
from memory_mcp.text import tokens
from tests.conversations.conftest import TRANSCRIPTS, Hook, given


def note(app: App, caller: Caller, content: str, **more: Any) -> Note:
    return app.notes.writer.create(caller, Author(), NewNote(content, namespace="project/billing", **more))


def test_an_empty_project_gets_nothing(hook: Hook) -> None:
    answer = hook("SessionStart", source="startup")
    assert answer["output"] is None
    assert answer["report"]["why"] == "there is nothing about this project yet"


def test_decisions_open_items_and_what_matters_each_with_date_and_reference(
    app: App, caller: Caller, hook: Hook
) -> None:
    decision = note(app, caller, "We decided on PostgreSQL for invoices.", tags=("decision",))
    todo = note(app, caller, "Release\n- [x] build\n- [ ] write the changelog", title="Release 2")
    task = note(app, caller, "Ask Ann about tax", tags=("todo",))
    done = note(app, caller, "Ask Bob about tax", tags=("todo", "done"))
    old = note(app, caller, "We use MySQL.")
    note(app, caller, "We use PostgreSQL.", supersedes=(old.id,))
    if "stores" in app.families:
        app.stores.add(caller, "billing", "runbook/restore", "How to restore the database.", Metadata())
    text = given(hook("SessionStart", source="startup"))
    assert f"- 2030-01-01 We decided on PostgreSQL for invoices. ({note_uri(decision.id)})" in text
    assert f"- 2030-01-01 Release 2: write the changelog ({note_uri(todo.id)})" in text
    assert f"- 2030-01-01 Ask Ann about tax ({note_uri(task.id)})" in text
    assert "We use MySQL" not in text
    assert ("(stores:billing/runbook/restore)" in text) == ("stores" in app.families)
    headings = [line for line in text.splitlines() if line.endswith(":") and not line.startswith("-")]
    files = ["Files:"] if "stores" in app.families else []
    assert headings == ["Decided and changed lately:", "Open:", *files]
    assert text.index(note_uri(done.id)) < text.index("Open:") < text.index(note_uri(task.id))
    assert given(hook("SessionStart", session="another", source="startup")) == text


@pytest.mark.parametrize("options", [{"hook_start_tokens": "300"}])
def test_a_digest_keeps_to_its_limit(app: App, caller: Caller, hook: Hook, options: dict[str, Any]) -> None:
    for number in range(50):
        note(app, caller, f"Decision {number}: " + "the details of it " * 20)
    text = given(hook("SessionStart", source="startup"))
    assert 200 < tokens.estimate(text) <= 300


def test_after_compaction_the_conversation_itself_comes_first(app: App, caller: Caller, hook: Hook) -> None:
    note(app, caller, "Something else about billing")
    hook("PreCompact", transcript_path=str(TRANSCRIPTS / "claude-code.jsonl"))
    text = given(hook("SessionStart", source="compact"))
    first = text.index("Earlier in this conversation:")
    assert first < text.index("user: Which database") < text.index("assistant: Done: due_date") < text.index("Decided")
    fresh = given(hook("SessionStart", session="two", source="startup"))
    assert "Earlier in this conversation" not in fresh
    assert "Last conversations:\n- 2029-12-30 Which database do we use for invoices?" in fresh


def test_entities_of_the_graphs_project_of_that_name_are_named(app: App, caller: Caller, hook: Hook) -> None:
    from memory_mcp.cli.common import new_session

    session = new_session(caller)
    app.graph.create_project(caller, session, "billing", "")
    app.graph.create_entities(
        caller, session, "billing", [NewEntity("Ann", "person", ("leads billing",)), NewEntity("Ledger", "service", ())]
    )
    app.graph.create_relations(caller, session, "billing", [NamedRelation("Ann", "Ledger", "owns")])
    text = given(hook("SessionStart", source="startup"))
    assert "- 2030-01-01 Ann (person): leads billing (graph:billing/Ann)" in text


def test_other_projects_stay_apart(app: App, caller: Caller, hook: Hook, tmp_path_factory: Any) -> None:
    note(app, caller, "About billing")
    other: Path = tmp_path_factory.mktemp("shop")
    answer = hook("SessionStart", cwd=str(other), source="startup")
    assert answer["output"] is None
