"""Exports have the list of conversations, so imports bring what was said as conversations, not as notes alone."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memory_mcp.app import App, open_app
from memory_mcp.caller import Caller
from memory_mcp.cli.common import new_session
from memory_mcp.conversations.model import Conversation, ConversationFilter
from memory_mcp.families.family import Call
from memory_mcp.importers.model import ImportPlan
from memory_mcp.maintenance.exports import Export
from memory_mcp.maintenance.imports import read_export
from tests.conftest import Clock, load_settings
from tests.conversations.conftest import TRANSCRIPTS, Hook, stored
from tests.conversations.sample import keep_conversations
from tests.conversations.test_deletion import delete, delete_for_good, listed

CLAUDE, SHOP, CODEX = "claude-code:in billing", "claude-code:in shop", "codex:in billing"
FILE = "conversations.jsonl"


@pytest.fixture(scope="session")
def origin_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data_dir = tmp_path_factory.mktemp("origin")
    keep_conversations(data_dir, tmp_path_factory.mktemp("projects"))
    return data_dir


@pytest.fixture
def origin(origin_dir: Path, clock: Clock) -> Iterator[App]:
    with open_app(load_settings(origin_dir, {"families": "vault,notes,graph,recall"}), clock=clock) as opened:
        yield opened


@pytest.fixture
def out(origin: App, caller: Caller, elsewhere: Path) -> Path:
    done = Export(origin.opened, caller).run(elsewhere / "out")
    assert done.counts["conversations"] == 3
    return done.folder


def conversations(app: App, caller: Caller) -> list[Conversation]:
    return app.conversations.reader.page(caller, ConversationFilter(), 10)[0]


def shown(app: App, caller: Caller) -> list[dict[str, Any]]:
    """What a user sees of each conversation, with what was said in it."""
    names = ("id", "client", "project", "title", "started_at", "last_at", "messages", "last_note")
    return [
        {name: getattr(one, name) for name in names}
        | {"texts": [note.content for note in app.conversations.reader.messages(caller, one, 0, 100)[0]]}
        for one in conversations(app, caller)
    ]


def test_imported_conversations_are_listed_and_shown_as_on_the_first_machine(
    app: App, origin: App, caller: Caller, out: Path
) -> None:
    tried = read_export(app.opened, caller, out, dry_run=True)
    assert conversations(app, caller) == []
    done = read_export(app.opened, caller, out)
    assert (tried, done.left_out) == (done, [])
    assert done.new["conversations"] == 3
    assert shown(app, caller) == shown(origin, caller)
    assert all(len(one["texts"]) == one["messages"] for one in shown(app, caller))
    again = read_export(app.opened, caller, out)
    assert (again.known["conversations"], sum(again.new.values())) == (3, 0)
    assert str(TRANSCRIPTS) not in (out / FILE).read_text()


@pytest.mark.parametrize(
    ("ref", "left"),
    [("conversations:billing", {SHOP}), (f"conversation:{SHOP}", {CLAUDE, CODEX}), ("conversations:", set())],
)
@pytest.mark.parametrize("is_for_good", [False, True])
def test_an_imported_conversation_is_deleted_and_another_import_does_not_bring_it_back(
    app: App, caller: Caller, out: Path, ref: str, left: set[str], is_for_good: bool
) -> None:
    read_export(app.opened, caller, out)
    before = shown(app, caller)
    copy = (delete_for_good if is_for_good else delete)(app, caller, ref)
    for _ in range(2):
        assert set(listed(app, caller)) == left
        notes = stored(app, caller) + stored(app, caller, "conversations/shop")
        assert {note.metadata["conversation"] for note in notes} == left
        assert read_export(app.opened, caller, out).known["conversations"] == 3
    if not is_for_good:
        app.conversations.edits.restore(Call(app.conversations, caller, new_session(caller)), ref, copy)
        assert shown(app, caller) == before


def test_an_imported_conversation_goes_on_and_no_message_is_stored_twice(
    app: App, caller: Caller, out: Path, hook: Hook, elsewhere: Path
) -> None:
    read_export(app.opened, caller, out)
    before = [note.content for note in stored(app, caller) if note.metadata["conversation"] == CLAUDE]
    message = {"role": "user", "content": "And one for the tax."}
    line = {"type": "user", "uuid": "next", "timestamp": "2029-12-31T09:00:00Z", "message": message}
    transcript = elsewhere / "t.jsonl"
    transcript.write_text((TRANSCRIPTS / "claude-code.jsonl").read_text() + json.dumps(line) + "\n")
    hook("SessionEnd", session="in billing", transcript_path=str(transcript))
    after = [note.content for note in stored(app, caller) if note.metadata["conversation"] == CLAUDE]
    assert after == [*before, "And one for the tax."]
    [one] = [one for one in shown(app, caller) if one["id"] == CLAUDE]
    assert (one["messages"], one["texts"], one["last_at"]) == (len(after), after, "2029-12-31T09:00:00.000Z")


def test_a_conversation_that_is_known_stays_as_it_is(app: App, caller: Caller, out: Path, hook: Hook) -> None:
    hook("SessionEnd", session="in billing", transcript_path=str(TRANSCRIPTS / "claude-code.jsonl"))
    before = conversations(app, caller)
    lines = [json.loads(line) | {"title": "Another", "messages": 99} for line in (out / FILE).read_text().splitlines()]
    (out / FILE).write_text("\n".join(map(json.dumps, lines)))
    for dry_run in (True, False):
        done = read_export(app.opened, caller, out, dry_run=dry_run)
        assert (done.new["conversations"], done.known["conversations"]) == (2, 1)
    assert [one for one in conversations(app, caller) if one.id == CLAUDE] == before


def test_an_undone_import_leaves_no_conversation_in_the_list(app: App, caller: Caller, out: Path, hook: Hook) -> None:
    plan = ImportPlan("memory-mcp", out, "", dry_run=False)
    app.own_exports.run(caller, plan, lambda *_: None)
    assert len(conversations(app, caller)) == 3
    hook("SessionEnd", session="own", transcript_path=str(TRANSCRIPTS / "claude-code.jsonl"))
    delete(app, caller, f"conversation:{SHOP}")
    undone = app.own_exports.undo(caller, app.importers.history(caller).all()[0].id)
    assert (undone.state, listed(app, caller)) == ("undone", ["claude-code:own"])
    app.own_exports.run(caller, plan, lambda *_: None)
    assert set(listed(app, caller)) == {"claude-code:own", CLAUDE, CODEX}
    texts = {one["id"]: one["texts"] for one in shown(app, caller)}
    assert texts[CLAUDE] == texts["claude-code:own"]


HOSTILE = [
    {"id": ""},
    {"id": "x" * 1000},
    {"id": "a\0b"},
    {"id": 7},
    {"id": "claude-code:\u202eabc"},
    {"client": None},
    {"project": "\ud800"},
    {"title": ["x"]},
    {"title": "\0"},
    {"started_at": "yesterday"},
    {"last_at": 5},
    {"folder": {"a": 1}},
    {"messages": 0},
    {"messages": True},
    {"messages": 1 << 80},
    {"messages": "3"},
    {"last_note": "../../x"},
    {"last_note": None},
]


def test_lines_that_are_no_conversations_are_left_out_and_reported(app: App, caller: Caller, out: Path) -> None:
    [first, *rest] = (out / FILE).read_text().splitlines()
    bad = [json.dumps(json.loads(first) | {"id": f"claude-code:{number}"} | one) for number, one in enumerate(HOSTILE)]
    missing = json.dumps({name: value for name, value in json.loads(first).items() if name != "last_at"})
    lines = [first, first, *bad, missing, "[]", "rubbish", "\udcff", "[" * 100_000, *rest]
    (out / FILE).write_bytes("\n".join(lines).encode(errors="surrogateescape"))
    for dry_run in (True, False):
        done = read_export(app.opened, caller, out, dry_run=dry_run)
        assert [one.path for one in done.left_out] == [f"{FILE}:{number}" for number in range(3, len(lines) - 1)]
        assert (done.new["conversations"], done.known["conversations"]) == (3, 1)
    assert len(conversations(app, caller)) == 3


def test_an_export_without_the_list_is_imported(app: App, caller: Caller, out: Path) -> None:
    (out / FILE).unlink()
    done = read_export(app.opened, caller, out)
    assert (done.left_out, done.new.get("conversations", 0), listed(app, caller)) == ([], 0, [])


def test_who_may_not_use_notes_exports_no_conversation(origin: App, caller: Caller, elsewhere: Path) -> None:
    stranger = Caller(caller.user, caller.scopes, caller.families - {"notes"})
    done = Export(origin.opened, stranger).run(elsewhere / "none")
    assert "conversations" not in done.counts
    assert not (done.folder / FILE).exists()
