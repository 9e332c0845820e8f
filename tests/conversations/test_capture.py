"""What was said in a conversation becomes notes: each message once, in order, without secrets."""

import itertools
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from memory_mcp.app import App, resume_captures
from memory_mcp.caller import Caller
from memory_mcp.conversations import capture as captures
from memory_mcp.conversations import storage, transcripts
from memory_mcp.families.notes.model import Author, Filter, NewNote, NoteQuery
from tests.conftest import Clock
from tests.conversations.conftest import TRANSCRIPTS, Hook, stored

SPOKEN = [
    ("user", "Which database do we use for invoices?"),
    ("assistant", "Invoices live in PostgreSQL. I look at the schema."),
    ("user", "Add a column for the due date."),
    ("assistant", "Done: due_date date not null."),
]


def line(number: int, text: str, **more: Any) -> str:
    at = f"2029-12-31T00:00:{number:02}Z"
    message = {"role": "user", "content": text}
    return json.dumps({"type": "user", "uuid": f"m{number}", "timestamp": at, "message": message} | more) + "\n"


@pytest.mark.parametrize("client", ["claude-code", "codex", "gemini-cli", "cursor"])
def test_messages_of_every_client_are_kept_in_order_and_once(app: App, caller: Caller, hook: Hook, client: str) -> None:
    transcript = str(TRANSCRIPTS / f"{client}.jsonl")
    for event in ("PreCompact", "SessionEnd"):
        hook(event, client=client, transcript_path=transcript)
    notes = stored(app, caller)
    assert [(note.metadata["role"], note.content) for note in notes if "tool" not in note.tags] == SPOKEN
    assert {(note.source, note.client) for note in notes} == {("hook", client)}
    [tools] = [note.content for note in notes if "tool" in note.tags]
    assert "invoices" in tools
    for before, after in itertools.pairwise(notes):
        assert before.links is not None
        assert [link.id for link in before.links.outgoing] == [after.id]


def test_a_growing_transcript_is_read_on_and_a_torn_line_waits(
    app: App, caller: Caller, hook: Hook, elsewhere: Path
) -> None:
    file = elsewhere / "t.jsonl"
    second = line(2, "two")
    file.write_text(line(1, "one") + second[:20])
    hook("PreCompact", transcript_path=str(file))
    assert [note.content for note in stored(app, caller)] == ["one"]
    file.write_text(line(1, "one") + second + line(3, "three"))
    hook("SessionEnd", transcript_path=str(file))
    assert [note.content for note in stored(app, caller)] == ["one", "two", "three"]


def test_a_capture_that_was_killed_goes_on_without_losing_or_doubling_anything(
    app: App, caller: Caller, hook: Hook, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = elsewhere / "t.jsonl"
    file.write_text("".join(line(number, f"message {number}") for number in range(20)))
    monkeypatch.setattr(captures, "BATCH_SIZE", 3)
    advance = storage.advance

    def die(tx: Any, id_: str, read_bytes: int, *more: Any) -> bool:
        if read_bytes > 800:  # the notes of this batch are stored, and where to go on is not
            raise KeyboardInterrupt
        return advance(tx, id_, read_bytes, *more)

    with monkeypatch.context() as patch:
        patch.setattr(storage, "advance", die)
        with pytest.raises(KeyboardInterrupt):
            hook("SessionEnd", transcript_path=str(file))
    assert 0 < len(stored(app, caller)) < 20
    other = elsewhere / "other.jsonl"
    other.write_text(line(1, "of another conversation"))
    report = hook("SessionEnd", session="two", transcript_path=str(other))["report"]
    assert "conversations whose client was killed" in report["did"]
    texts = [note.content for note in stored(app, caller) if note.metadata["conversation"].endswith("one")]
    assert texts == [f"message {number}" for number in range(20)]


def test_messages_expire_and_are_deleted(app: App, caller: Caller, hook: Hook, elsewhere: Path, clock: Clock) -> None:
    file = elsewhere / "t.jsonl"
    file.write_text(line(1, "too old already", timestamp="2029-01-01T00:00:00Z") + line(2, "young"))
    hook("SessionEnd", transcript_path=str(file))
    [note] = stored(app, caller)
    assert (note.content, note.expires_at) == ("young", "2030-03-31T00:00:02.000Z")
    clock.now += timedelta(days=91)
    hook("SessionEnd", session="two", transcript_path=str(file))
    assert app.notes.transfer.has(caller, note.id) is False


def test_text_that_hooks_gave_is_not_kept_again(app: App, caller: Caller, hook: Hook, elsewhere: Path) -> None:
    file = elsewhere / "t.jsonl"
    file.write_text(line(1, "<memory-mcp>\nOpen:\n- a\n</memory-mcp>") + line(2, "<memory-mcp>x</memory-mcp>mine"))
    hook("SessionEnd", transcript_path=str(file))
    assert [note.content for note in stored(app, caller)] == ["mine"]


def test_curated_notes_rank_above_messages(app: App, caller: Caller, hook: Hook, elsewhere: Path) -> None:
    file = elsewhere / "t.jsonl"
    file.write_text(line(1, "the invoice total excludes tax"))
    hook("SessionEnd", transcript_path=str(file))
    app.notes.writer.create(caller, Author(), NewNote("the invoice total excludes tax", namespace="project/billing"))
    hits, _ = app.notes.reader.hits(caller, NoteQuery("invoice total", Filter()))
    assert [hit.source for hit in hits] == ["mcp", "hook"]


def test_a_conversation_whose_client_was_killed_is_kept_later(
    app: App, caller: Caller, hook: Hook, elsewhere: Path
) -> None:
    file = elsewhere / "t.jsonl"
    file.write_text("")
    hook("SessionStart", transcript_path=str(file), source="startup")
    hook("UserPromptSubmit", transcript_path=str(file), prompt="one")
    file.write_text(line(1, "one") + line(2, "two"))  # and then the client is killed: no hook runs at its end
    assert resume_captures(app) == 2
    assert [note.content for note in stored(app, caller)] == ["one", "two"]
    assert resume_captures(app) == 0
    file.write_text(line(1, "one") + line(2, "two") + line(3, "three"))
    hook("UserPromptSubmit", transcript_path=str(file), prompt="three")
    assert resume_captures(app) == 1


@pytest.mark.parametrize("ends", [True, False])
def test_a_project_that_was_switched_off_meanwhile_is_not_kept_later(
    app: App, caller: Caller, hook: Hook, elsewhere: Path, project: Path, ends: bool
) -> None:
    file = elsewhere / "t.jsonl"
    file.write_text(line(1, "one"))
    hook("UserPromptSubmit", transcript_path=str(file), prompt="one")
    (project / ".memory-mcp").write_text("capture = false")
    if ends:
        hook("SessionEnd", transcript_path=str(file))
        (project / ".memory-mcp").unlink()
    assert resume_captures(app) == 0
    assert stored(app, caller) == []


@pytest.mark.parametrize(
    "odd",
    [
        '{"type": "user", "uuid": "odd", "message": ' + "[" * 5000 + "]" * 5000 + "}\n",
        line(2, "half a pair: \ud800"),
        line(2, "an id", uuid="\udc00"),
        line(2, "of the last year", timestamp="9999-12-31T23:59:59Z"),
        line(2, "<" + " " * 1_000_000),
        line(2, "password" + " " * 4000),
    ],
    ids=["deep", "surrogate", "surrogate-id", "future", "spaces", "password"],
)
def test_no_line_of_a_transcript_keeps_other_messages_from_being_stored(
    app: App, caller: Caller, hook: Hook, elsewhere: Path, odd: str
) -> None:
    file = elsewhere / "t.jsonl"
    file.write_text(line(1, "one") + odd + line(3, "three"))
    hook("UserPromptSubmit", transcript_path=str(file), prompt="?")
    resume_captures(app)
    assert {"one", "three"} <= {note.content for note in stored(app, caller)}


def test_opening_tags_without_an_end_take_no_long_time() -> None:
    opened = "<memory-mcp " * 1_000_000
    assert transcripts.without_insertions(opened) == opened.strip()
