"""Files that a person uploads: checked, imported, undone; and files that are made to do harm."""

import base64
import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from memory_mcp.engines.files.lock import FileLock
from tests.bombs import zip_bomb
from tests.events import eventually
from tests.importers.foreign_tools import FIXTURES
from tests.server.test_lists import call
from tests.server.test_rest import Person, cli, signed_in
from tests.wire import Http, http_server

MAX_UPLOAD_BYTES = 3_000_000


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Http]:
    flags = ("--embedder", "none", "--import-bytes", str(MAX_UPLOAD_BYTES))
    with http_server(tmp_path_factory.mktemp("imports"), *flags) as running:
        yield running


@pytest.fixture(scope="module")
def me(server: Http) -> Person:
    return signed_in(server, server.link)


@pytest.fixture(scope="module")
def ann(server: Http, me: Person) -> Person:
    cli(server.data_dir, "users", "add", "ann")
    return signed_in(server, cli(server.data_dir, "users", "link", "ann")["link"])


def zipped(files: dict[str, str | bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return packed.getvalue()


VAULT = zipped({"Vault/Plan.md": "Ask [[Ann]].", "Vault/People/Ann.md": "Ann leads.", "Vault/.obsidian/app.json": "{}"})


def upload(person: Person, content: bytes, name: str = "upload.zip") -> httpx.Response:
    body = {"name": name, "offset": 0, "data": base64.b64encode(content).decode()}
    return person.ask("POST", "/api/uploads", json=body)


def start(person: Person, **wanted: Any) -> dict[str, Any]:
    body = {"upload": "upload.zip", "name": "Vault", "dry_run": True} | wanted
    answer = person.ask("POST", "/api/imports", json=body)
    assert answer.status_code == 202, answer.text
    return finished(person)


def finished(person: Person) -> dict[str, Any]:
    def job() -> dict[str, Any] | None:
        shown: dict[str, Any] = person.ask("GET", "/api/imports").json()["job"]
        return shown if shown["state"] != "running" else None

    return eventually(job)


def titles(person: Person) -> list[str]:
    return [note["title"] for note in person.ask("GET", "/api/notes").json()["notes"]]


def leftovers(server: Http) -> list[Path]:
    return [*server.data_dir.rglob(".*staging*"), *server.data_dir.rglob("uploads/*.zip")]


def test_a_vault_is_checked_imported_and_undone(server: Http, me: Person, ann: Person) -> None:
    assert upload(me, VAULT).json() == {"upload": "upload.zip", "bytes": len(VAULT)}
    checked = start(me)
    assert (checked["state"], checked["kind"], checked["format"]) == ("done", "check", "markdown")
    assert (checked["report"]["imported"], checked["report"]["into"]) == (2, "default")
    assert sorted(checked["report"]["samples"]) == ["Ann", "Plan"]
    assert titles(me) == []

    done = start(me, dry_run=False, into="vault")
    assert (done["state"], done["report"]["imported"]) == ("done", 2)
    assert sorted(titles(me)) == ["Ann", "Plan"]
    assert leftovers(server) == []
    assert me.audit()[0]["action"] == "import"

    [listed] = me.ask("GET", "/api/imports").json()["imports"]
    assert (listed["source"], listed["into"], listed["imported"]) == ("Vault", "vault", 2)
    assert ann.ask("POST", f"/api/imports/{listed['id']}/undo").status_code == 404
    assert ann.ask("GET", "/api/imports").json() == {"job": None, "imports": []}
    assert me.ask("POST", f"/api/imports/{listed['id']}/undo").status_code == 202
    assert finished(me)["undone"] == {"removed": 2, "kept": 0}
    assert titles(me) == []
    assert me.ask("POST", f"/api/imports/{listed['id']}/undo").status_code == 202
    assert "undone already" in finished(me)["error"]


def test_our_own_export_is_checked_imported_and_undone_in_every_family(
    server: Http, me: Person, ann: Person, tmp_path: Path
) -> None:
    call(ann, "memory_create", title="Tide", content="High at noon")
    call(ann, "memory_create", title="Moon", content="Full on Friday. See [[Tide]].")
    call(ann, "commit_memory", scope="vault", key="boat", content="Blue")
    call(ann, "add_memory", store="default", path="port/crew", content="Three")
    call(ann, "create_project", name="port")
    call(ann, "create_entities", project="port", entities=[{"name": "Crane", "entity_type": "thing"}])
    call(ann, "portal_write", portalUri="mem://port/trips", table="trips", data=[{"id": 1, "to": "Faro"}])
    exported = ann.ask("POST", "/api/export").content

    upload(ann, exported)
    assert "the owner of this server" in start(ann)["error"]
    assert upload(me, exported).status_code == 200
    checked = start(me, name="export.zip")
    assert (checked["state"], checked["format"], checked["report"]["family"]) == ("done", "memory-mcp", "all")
    details = checked["report"]["details"]
    assert {name: details[name] for name in ("notes", "memories", "files", "entities", "portals")} == {
        "notes": 2, "memories": 1, "files": 1, "entities": 1, "portals": 1
    }  # fmt: skip
    assert titles(me) == []

    done = start(me, name="export.zip", dry_run=False)
    assert done["report"]["imported"] == checked["report"]["imported"]
    assert start_again(me, exported)["report"]["imported"] == 0
    [tide] = [note for note in me.ask("GET", "/api/notes").json()["notes"] if note["title"] == "Tide"]
    call(me, "memory_update", id=tide["id"], content="High at one")
    assert undo_last(me)["kept"] >= 1, "the note that was changed since"
    assert titles(me) == ["Tide"]
    assert {one["title"] for one in me.ask("GET", "/api/recent").json()["writes"]} == {"Tide"}
    assert [*server.data_dir.rglob(".*staging*")] == []

    again = start_again(me, exported)["report"]
    assert again["details"]["notes"] == 1, "of two, the one that was changed stays"
    assert start(me, name="export.zip", dry_run=False)["report"]["imported"] == again["imported"]
    assert sorted(titles(me)) == ["Moon", "Tide"]
    assert undo_last(me)["kept"] == 0
    assert titles(me) == ["Tide"]


def undo_last(person: Person) -> dict[str, Any]:
    listed = person.ask("GET", "/api/imports").json()["imports"][0]
    assert person.ask("POST", f"/api/imports/{listed['id']}/undo").status_code == 202
    undone: dict[str, Any] = finished(person)["undone"]
    return undone


def start_again(person: Person, content: bytes) -> dict[str, Any]:
    upload(person, content)
    return start(person, name="export.zip")


@pytest.mark.parametrize(
    ("content", "format_"),
    [
        ((FIXTURES / "server-memory" / "memory.jsonl").read_bytes(), "server-memory"),
        ((FIXTURES / "mem0" / "mem0.json").read_bytes(), "mem0"),
        (zipped({"conversations.json": "[]", "memories.json": '[{"conversations_memory": "Likes tea."}]'}), "claude"),
        (b"[2024-05-01] - Lives in Lisbon.\n", "chatgpt"),
    ],
)
def test_the_format_is_found_by_the_content(ann: Person, content: bytes, format_: str) -> None:
    name = "list.txt" if format_ == "chatgpt" else "upload.zip"
    upload(ann, content, name)
    checked = start(ann, upload=name)
    assert (checked["error"], checked["format"]) == (None, format_)
    assert checked["report"]["imported"] > 0


@pytest.mark.parametrize(
    ("content", "format_", "words"),
    [
        (b"nothing of the kind", None, "No format fits"),
        (zip_bomb(["a.md"], megabytes=1_100), None, "100 times its size"),
        (zipped({f"{n}.md": bytes(400_000) for n in range(10)}), "markdown", "unpacks to more than 3,000,000 bytes"),
        (zipped({f"{n}{'/x' * 38}/a.md": "" for n in range(2600)}), "markdown", "100,000 files and folders"),
        (zipped({"../../../evil.md": "x", "/etc/evil.md": "y"}), "markdown", "has no markdown files"),
        (b"PK\x03\x04 is no zip", "markdown", "not a folder, nor a zip"),
        (b'{"type": "entity"' * 1000, "server-memory", "not a file of server-memory"),
    ],
)
def test_a_harmful_or_wrong_file_is_refused(
    server: Http, ann: Person, content: bytes, format_: str | None, words: str
) -> None:
    upload(ann, content)
    checked = start(ann, format=format_)
    assert checked["state"] == "failed"
    assert words in checked["error"]
    assert str(server.data_dir) not in checked["error"]
    assert not list(server.data_dir.rglob("evil*"))


def test_an_upload_stays_within_its_folder_and_limits(server: Http, me: Person, ann: Person) -> None:
    for name in ("../x.zip", "a/b.zip", ".hidden", ""):
        assert upload(ann, b"x", name).status_code == 422
    beyond = {"name": "upload.zip", "offset": MAX_UPLOAD_BYTES, "data": base64.b64encode(b"x").decode()}
    assert ann.ask("POST", "/api/uploads", json=beyond).json()["error"] == "too_large"
    missing = start(ann, upload="other.zip")
    assert (missing["state"], "Upload it again" in missing["error"]) == ("failed", True)
    assert "Upload it again" in start(ann, upload="../../../../server.db")["error"]
    outside = server.client.post("/api/uploads", json={"name": "x", "offset": 0, "data": ""})
    assert outside.status_code == 401


def test_one_import_at_a_time_which_can_be_stopped(ann: Person) -> None:
    lines = (json.dumps({"id": str(n), "memory": f"Memory {n} " + "x" * 60}) for n in range(15_000))
    upload(ann, zipped({"memories.jsonl": "\n".join(lines)}))
    body = {"upload": "upload.zip", "name": "Many", "dry_run": False}
    assert ann.ask("POST", "/api/imports", json=body).status_code == 202
    assert ann.ask("POST", "/api/imports", json=body).status_code == 409
    assert ann.ask("POST", "/api/imports/stop").status_code == 204
    assert finished(ann)["state"] == "stopped"


def test_an_import_of_one_user_delays_no_other(server: Http, me: Person, ann: Person) -> None:
    """As long as it takes: its lock is held here."""
    upload(me, VAULT)
    assert start(me, dry_run=False, into="lock")["state"] == "done"
    upload(ann, VAULT)
    with FileLock(server.data_dir / "import.lock").acquire():
        assert start(ann, dry_run=False, into="lock")["state"] == "done"


def test_metadata_that_is_small_as_bytes_and_large_in_memory_is_not_imported(me: Person) -> None:
    records = [{"id": number, "memory": f"Fact {number}", "metadata": {"a": 1}} for number in range(2)]
    records[1]["metadata"] = {"a": [[]] * 10_000}
    upload(me, json.dumps(records).encode(), "mem0.json")
    job = start(me, upload="mem0.json", name="mem0.json", format="mem0")
    report = job["report"]
    assert (report["imported"], report["refused"]) == (1, 1)
    assert report["problems"][0]["why"] == "Its metadata has over 10,000 lists and objects."
