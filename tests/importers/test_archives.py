"""The data exports of ChatGPT and Claude. Their schemas are not published; each test names its source."""

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from memory_mcp.app import App
from memory_mcp.errors import Invalid
from tests.importers.conftest import move, outcome
from tests.importers.test_foreign_files import notes

ACCOUNT = "7b08e9b7-54ef-482e-8235-964e144a5aa9"
PROJECT = "019a5b6e-d1b2-77cd-b85e-ed252b55f9b3"
PAGE = "**Work context**\n\nAnn runs the database team.\n\n**Personal context**\n\nAnn plays chess."


def zipped(path: Path, files: dict[str, Any]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content if isinstance(content, bytes) else json.dumps(content))
    return path


def test_claudes_export_of_one_zip(app: App, tmp_path: Path) -> None:
    # The layout that Sinity/polylogue and others read: data-2026-04-09-…-batch-0000.zip.
    memory = {"conversations_memory": PAGE, "project_memories": {PROJECT: "Ships in May."}, "account_uuid": ACCOUNT}
    files = {
        "conversations.json": [{"uuid": "c", "chat_messages": []}],
        "memories.json": [memory],
        "projects.json": [{"uuid": PROJECT, "name": "Website"}],
        "users.json": [{"uuid": ACCOUNT, "full_name": "Ann"}],
    }
    path = zipped(tmp_path / "export.zip", files)
    assert outcome(move(app, "claude", path, dry_run=True)) == (3, 3, 0, 0)
    assert outcome(move(app, "claude", path)) == (3, 3, 0, 0)
    found = notes(app)
    assert found["Ann runs the database team."].title == "Work context"
    assert found["Ships in May."].folder == "Website"
    assert found["Ships in May."].metadata["project_id"] == PROJECT

    memory["conversations_memory"] = PAGE.replace("chess", "go")
    again = move(app, "claude", zipped(tmp_path / "export.zip", files))
    assert (again.skipped, again.updated) == (2, 1)
    with zipfile.ZipFile(path) as archive:
        archive.extractall(tmp_path / "unpacked")
    assert move(app, "claude", tmp_path / "unpacked").skipped == 3
    assert move(app, "claude", tmp_path / "unpacked" / "memories.json").skipped == 3


def test_claudes_export_of_several_zips(app: App, tmp_path: Path) -> None:
    # Since 2026: a manifest and a zip for each category, here as downloaded into a folder, and zipped together.
    memory = {
        "account_uuid": ACCOUNT,
        "conversations_memory": "",
        "project_memories": {},
        "memory_files": [
            {"path": "/people/ann.md", "content": "# Ann\n\nPlays chess.", "updated_at": "2026-01-01T00:00:00+00:00"},
            {"path": "/profile.md", "content": ""},
            "no file",
        ],
    }
    folder = tmp_path / "export"
    folder.mkdir()
    inner = zipped(folder / "memories-000.zip", {f"memories/{ACCOUNT}.json": memory})
    zipped(folder / "projects-000.zip", {f"projects/{PROJECT}.json": {"uuid": PROJECT, "name": "Website"}})
    zipped(folder / "conversations-000.zip", {"conversations.json": []})
    report = move(app, "claude", folder)
    assert outcome(report) == (3, 1, 0, 2)
    [note] = notes(app).values()
    assert (note.title, note.folder, note.created_at) == ("ann", "people", "2026-01-01T00:00:00.000Z")
    assert move(app, "claude", inner).skipped == 1
    assert move(app, "claude", zipped(tmp_path / "all.zip", {"memories-000.zip": inner.read_bytes()})).skipped == 1


def message(at: float, content: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"message": {"create_time": at, "content": content, "author": {"role": "assistant"}, **more}}


def bio(at: float, text: str) -> dict[str, Any]:
    return message(at, {"content_type": "text", "parts": [text]}, recipient="bio")


def chatgpts_conversations() -> list[dict[str, Any]]:
    """Messages to `bio`, `model_editable_context` and `user_editable_context` as in conversations.json of exports that
    people have published; "Model set context updated." is the answer of `bio`."""
    answered = {"content_type": "text", "parts": ["Model set context updated."]}
    listed = "1. [2024-05-01]. Lives in Lisbon.\n\n2. [2024-06-02]. Works as a nurse."
    profile = {"content_type": "user_editable_context", "user_profile": "They say:\n```I am a nurse.```"}
    old, new = 1_714_000_000.0, 1_720_000_000.0
    return [
        {
            "conversation_id": "c1",
            "create_time": old,
            "mapping": {
                "root": {"message": None},
                "a": bio(old, "Lives in Lisbon."),
                "b": message(old, answered, author={"role": "tool", "name": "bio"}, recipient="all"),
                "c": bio(old, "Is looking for an oven."),
                "d": message(old, profile),
            },
        },
        {
            "conversation_id": "c2",
            "create_time": new,
            "mapping": {
                "l": message(new, {"content_type": "model_editable_context", "model_set_context": listed}),
                "a": bio(new + 5, "Has a cat called Mia."),
                "b": bio(new + 6, "Forget that the user is looking for an oven."),
                "e": message(new, {"content_type": "model_editable_context", "model_set_context": ""}),
            },
        },
        {"title": "not one"},
    ]


def test_chatgpts_export(app: App, tmp_path: Path) -> None:
    files = {"conversations.json": chatgpts_conversations(), "user.json": {}, "chat.html": b"<p>"}
    path = zipped(tmp_path / "export.zip", files)
    report = move(app, "chatgpt", path)
    assert outcome(report) == (5, 4, 0, 1)
    assert report.left_out == 2
    found = notes(app)
    assert set(found) == {"Lives in Lisbon.", "Works as a nurse.", "Has a cat called Mia.", "I am a nurse."}
    assert found["Lives in Lisbon."].created_at == "2024-05-01T00:00:00.000Z"
    assert found["Has a cat called Mia."].created_at == "2024-07-03T09:46:45.000Z"
    assert found["Has a cat called Mia."].metadata["conversation_id"] == "c2"
    assert move(app, "chatgpt", path).skipped == 4


def test_memories_of_claude_with_very_many_objects_are_not_parsed(app: App, tmp_path: Path) -> None:
    memories = json.dumps([{"conversations_memory": PAGE}])[:-1].encode() + b",{}" * 1_000_000 + b"]"
    with pytest.raises(Invalid, match="has none of"):
        move(app, "claude", zipped(tmp_path / "export.zip", {"memories.json": memories}))


def test_a_zip_of_very_many_records_that_are_no_conversations_is_refused(app: App, tmp_path: Path) -> None:
    conversations = json.dumps(chatgpts_conversations())[:-1].encode()
    path = zipped(tmp_path / "export.zip", {"conversations.json": conversations + b",1" * 100_001 + b"]"})
    with pytest.raises(Invalid, match="More than 100,000"):
        move(app, "chatgpt", path)
    assert notes(app) == {}


def test_a_printed_list_of_memories(app: App, tmp_path: Path) -> None:
    # What the prompt of claude.com/import-memory asks an assistant for.
    text = (
        "Here they are:\n```\n[2024-05-01] - Lives in Lisbon.\n[unknown] - Works as a nurse.\n- Likes [brackets]\n```\n"
    )
    (tmp_path / "memories.txt").write_text(text, encoding="utf-8")
    assert outcome(move(app, "chatgpt", tmp_path / "memories.txt")) == (4, 4, 0, 0)
    found = notes(app)
    assert found["Lives in Lisbon."].created_at == "2024-05-01T00:00:00.000Z"
    assert "Works as a nurse." in found
    assert "Likes [brackets]" in found
    (tmp_path / "memories.txt").write_text("2. lives in  LISBON.", encoding="utf-8")
    assert move(app, "chatgpt", tmp_path / "memories.txt").imported == 0
