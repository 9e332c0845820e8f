"""Transcripts that the real clients wrote, over a compaction and a resume: every message is kept once, in its order."""

from pathlib import Path

import pytest

from memory_mcp.app import App
from memory_mcp.caller import Caller
from tests.conversations.conftest import Hook, stored
from tests.conversations.conftest import caller as caller
from tests.conversations.conftest import hook as hook
from tests.conversations.conftest import project as project

TRANSCRIPTS = Path(__file__).parent / "transcripts"

QUESTION = ("user", "Which database do we use for invoices?")
ANSWER = ("assistant", "Invoices live in PostgreSQL. I look at the schema.")
TOOL = ("tool", "Table invoices: id, customer, total")
COLUMNS = ("assistant", "The table has the columns id, customer and total.")
THANKS, WISH = ("user", "Thank you."), ("user", "Add a column for the due date.")
DONE = ("assistant", "Done: due_date date not null.")
SUMMARY = ("assistant", "They use PostgreSQL for invoices.")

RECORDED = {
    "claude-code": [QUESTION, ANSWER, TOOL, COLUMNS, THANKS, ANSWER, TOOL, COLUMNS, WISH, DONE],
    # Nothing in the transcript shows that the summary of a compaction is no answer.
    "codex": [QUESTION, ANSWER, TOOL, COLUMNS, SUMMARY, THANKS, ("assistant", "Fine."), WISH, DONE],
    "gemini-cli": [QUESTION, ANSWER, TOOL, COLUMNS, THANKS, ANSWER, TOOL, COLUMNS, WISH, ANSWER, TOOL, COLUMNS],
}


@pytest.mark.parametrize("client", RECORDED)
@pytest.mark.parametrize("is_growing", [False, True])
def test_what_the_client_recorded_is_kept_once_and_in_order(
    app: App, caller: Caller, hook: Hook, elsewhere: Path, client: str, is_growing: bool
) -> None:
    """A capture after every fifth line, as hooks run while a conversation goes on, keeps the same messages."""
    lines = (TRANSCRIPTS / f"{client}.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    file = elsewhere / "t.jsonl"
    for end in [*(range(5, len(lines), 5) if is_growing else ()), len(lines)]:
        file.write_text("".join(lines[:end]), encoding="utf-8")
        hook("Stop", client=client, transcript_path=str(file))
    notes = [(str(note.metadata["role"]), note.content) for note in stored(app, caller)]
    spoken = [(role, text) for role, text in notes if role != "tool"]
    assert spoken == [one for one in RECORDED[client] if one[0] != "tool"]
    tools = [text for role, text in notes if role == "tool"]
    assert sum(text.count("→") for text in tools) == RECORDED[client].count(TOOL)
    assert all(TOOL[1] in text for text in tools if "→" in text)
