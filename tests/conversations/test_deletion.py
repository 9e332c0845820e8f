"""The user deletes a conversation, a project or everything that hooks wrote, and takes it back."""

import pytest

from memory_mcp.app import App
from memory_mcp.caller import Caller
from memory_mcp.errors import NotFound
from tests.conversations.conftest import TRANSCRIPTS, Hook, stored

TRANSCRIPT = str(TRANSCRIPTS / "claude-code.jsonl")


@pytest.mark.parametrize("ref", ["conversation:claude-code:one", "conversations:billing", "conversations:"])
def test_deleting_is_undone_and_a_deleted_conversation_is_not_captured_again(
    app: App, caller: Caller, hook: Hook, ref: str
) -> None:
    hook("PreCompact", transcript_path=TRANSCRIPT)
    before = [note.content for note in stored(app, caller)]
    assert len(before) == 5
    deleted = app.conversations.delete(caller, ref)
    assert stored(app, caller) == []
    assert app.conversations.latest(caller, None, 10) == []
    hook("SessionEnd", transcript_path=TRANSCRIPT)
    assert stored(app, caller) == []
    assert app.conversations.restore(caller, deleted) == 5
    assert [note.content for note in stored(app, caller)] == before
    assert [one.id for one in app.conversations.latest(caller, None, 10)] == ["claude-code:one"]


def test_other_conversations_stay(app: App, caller: Caller, hook: Hook) -> None:
    for session in ("one", "two"):
        hook("PreCompact", session=session, transcript_path=TRANSCRIPT)
    app.conversations.delete(caller, "conversation:claude-code:one")
    assert {note.metadata["conversation"] for note in stored(app, caller)} == {"claude-code:two"}
    with pytest.raises(NotFound):
        app.conversations.delete(caller, "conversation:claude-code:three")
