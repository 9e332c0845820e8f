"""The user deletes a conversation, a project or everything that hooks wrote, and takes it back."""

from typing import Any

import pytest

from memory_mcp.app import App
from memory_mcp.caller import Caller
from memory_mcp.cli.common import new_session
from memory_mcp.conversations.model import ConversationFilter
from memory_mcp.errors import Conflict, NotFound
from memory_mcp.families.family import Call
from tests.conversations.conftest import TRANSCRIPTS, Hook, stored

TRANSCRIPT = str(TRANSCRIPTS / "claude-code.jsonl")
REFS = ["conversation:claude-code:one", "conversations:billing", "conversations:"]


def delete(app: App, caller: Caller, ref: str) -> Any:
    """Returns the copy for the undo."""
    kept: list[Any] = []
    app.conversations.edits.delete(Call(app.conversations, caller, new_session(caller)), ref, kept.append)
    return kept[0]


def delete_for_good(app: App, caller: Caller, ref: str) -> None:
    app.conversations.edits.delete(Call(app.conversations, caller, new_session(caller)), ref, None)


def listed(app: App, caller: Caller) -> list[str]:
    return [one.id for one in app.conversations.reader.page(caller, ConversationFilter(), 10)[0]]


def facts(app: App, caller: Caller) -> list[tuple[str, float]]:
    return [(note.content, note.importance) for note in stored(app, caller)]


@pytest.mark.parametrize("ref", REFS)
def test_deleting_is_undone_and_a_deleted_conversation_is_not_captured_again(
    app: App, caller: Caller, hook: Hook, ref: str
) -> None:
    hook("PreCompact", transcript_path=TRANSCRIPT)
    before = facts(app, caller)
    assert len(before) == 5
    copy = delete(app, caller, ref)
    assert (stored(app, caller), listed(app, caller)) == ([], [])
    hook("SessionEnd", transcript_path=TRANSCRIPT)
    assert stored(app, caller) == []
    with pytest.raises(NotFound if ref.startswith("conversations:") else Conflict):
        delete(app, caller, ref)
    app.conversations.edits.restore(Call(app.conversations, caller, new_session(caller)), ref, copy)
    assert facts(app, caller) == before
    assert listed(app, caller) == ["claude-code:one"]


@pytest.mark.parametrize("ref", REFS)
@pytest.mark.parametrize("is_archived", [False, True])
def test_nothing_is_left_of_a_permanently_deleted_conversation(
    app: App, caller: Caller, hook: Hook, ref: str, is_archived: bool
) -> None:
    hook("PreCompact", transcript_path=TRANSCRIPT)
    hook("SessionStart", source="compact")
    if is_archived:
        delete(app, caller, ref)
    delete_for_good(app, caller, ref)
    assert (listed(app, caller), app.notes.reader.archived(caller, 10).total) == ([], 0)
    assert app.conversations.reader.given(caller, None, 10) == ([], None)
    app.close_files()
    files = [file for file in app.settings.data_dir.iterdir() if file.is_file()]
    assert [file.name for file in files if b"due_date" in file.read_bytes()] == []
    hook("SessionEnd", transcript_path=TRANSCRIPT)
    assert stored(app, caller) == []


@pytest.mark.parametrize("deleting", [delete, delete_for_good])
def test_a_conversation_that_is_deleted_while_it_is_captured_stays_deleted(
    app: App, caller: Caller, hook: Hook, deleting: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = app.notes.series.append

    def delete_and_append(*given: Any) -> Any:
        deleting(app, caller, REFS[0])
        return append(*given)

    monkeypatch.setattr(app.notes.series, "append", delete_and_append)
    hook("SessionEnd", transcript_path=TRANSCRIPT)
    assert (stored(app, caller), listed(app, caller)) == ([], [])
    assert app.notes.reader.archived(caller, 10).total == (5 if deleting is delete else 0)


def test_other_conversations_stay(app: App, caller: Caller, hook: Hook) -> None:
    for session in ("one", "two"):
        hook("PreCompact", session=session, transcript_path=TRANSCRIPT)
    delete(app, caller, REFS[0])
    assert {note.metadata["conversation"] for note in stored(app, caller)} == {"claude-code:two"}
    with pytest.raises(NotFound):
        delete(app, caller, "conversation:claude-code:three")
