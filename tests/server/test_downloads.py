"""What a person takes along, over real servers: who may, that it is taken in again, and that nothing stays behind."""

import io
import json
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path

import anyio
import httpx
import pytest
from starlette.types import Message

from memory_mcp.server.rest.downloads import TemporaryFileResponse
from tests.events import eventually
from tests.server.test_rest import COOKIE, Person, cli, signed_in
from tests.wire import Http, http_server

SECRET = "ombudswoman"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Http]:
    with http_server(tmp_path_factory.mktemp("downloads"), "--embedder", "none") as running:
        yield running


@pytest.fixture(scope="module")
def me(server: Http) -> Person:
    person = signed_in(server, server.link)
    call(person, "memory_create", title="Mine", content=f"{SECRET} of mine")
    call(person, "commit_memory", scope="vault", key="tea", content="Darjeeling")
    call(person, "add_memory", store="default", path="people/bob", content="Bob leads.")
    call(person, "create_project", name="house")
    call(person, "portal_write", portalUri="mem://tests/shop", table="orders", data=[{"id": 1, "buyer": "Ann"}])
    return person


@pytest.fixture(scope="module")
def ann(server: Http, me: Person) -> Person:
    cli(server.data_dir, "users", "add", "ann")
    person = signed_in(server, cli(server.data_dir, "users", "link", "ann")["link"])
    call(person, "memory_create", title="Hers", content="Her own note")
    return person


def call(person: Person, tool: str, **arguments: object) -> None:
    answer = person.ask("POST", f"/api/tools/{tool}", json=arguments)
    assert answer.status_code == 200, answer.text


def downloaded(person: Person, what: str, folder: Path) -> Path:
    answer = person.ask("POST", f"/api/{what}", timeout=60)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/zip"
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["memory-left-out"] == "0"
    assert f'filename="memory-{what}-20' in answer.headers["content-disposition"]
    file = folder / f"{what}.zip"
    file.write_bytes(answer.content)
    return file


def leftovers(server: Http) -> list[Path]:
    return list(server.data_dir.glob(".*staging*"))


def test_a_download_can_be_imported_elsewhere(server: Http, me: Person, ann: Person, tmp_path: Path) -> None:
    file = downloaded(me, "export", tmp_path)
    eventually(lambda: not leftovers(server))

    elsewhere = tmp_path / "elsewhere"
    taken = cli(elsewhere, "import", "memory-mcp", str(file))
    assert (taken["new"]["notes"], taken["new"]["memories"], taken["new"]["portals"]) == (1, 1, 1)
    assert taken["left_out"] == []
    assert SECRET in json.dumps(cli(elsewhere, "search", SECRET))
    assert cli(elsewhere, "import", "memory-mcp", str(file))["new"].get("notes", 0) == 0
    line = me.audit()[0]
    assert (line["action"], line["client"], line["ip"]) == ("export_downloaded", "web app", "127.0.0.1")


def test_a_repacked_zip_with_its_folder_is_imported(me: Person, tmp_path: Path) -> None:
    with zipfile.ZipFile(downloaded(me, "export", tmp_path)) as archive:
        archive.extractall(tmp_path / "again" / "my memories")
    again = tmp_path / "again.zip"
    with zipfile.ZipFile(again, "w") as archive:
        for path in (tmp_path / "again").rglob("*"):
            archive.write(path, path.relative_to(tmp_path / "again"))
    assert cli(tmp_path / "elsewhere", "import", "memory-mcp", str(again))["new"]["notes"] == 1


def test_no_user_downloads_another_users_data(server: Http, me: Person, ann: Person, tmp_path: Path) -> None:
    file = downloaded(ann, "export", tmp_path)
    with zipfile.ZipFile(file) as archive:
        everything = b"".join(archive.read(name) for name in archive.namelist())
        names = archive.namelist()
    assert b"Her own note" in everything
    assert SECRET.encode() not in everything
    assert not [name for name in names if name.startswith(("portals/", "stores/"))]

    refused = ann.ask("POST", "/api/backup")
    assert (refused.status_code, refused.json()["error"]) == (403, "scope_required")
    assert not ann.ask("GET", "/api/me").json()["may_back_up"]
    assert me.ask("GET", "/api/me").json()["may_back_up"]
    assert "backup_downloaded" not in [entry["action"] for entry in ann.audit()]


def test_a_backup_of_the_whole_server_is_restored(server: Http, me: Person, ann: Person, tmp_path: Path) -> None:
    file = downloaded(me, "backup", tmp_path)
    eventually(lambda: not leftovers(server))
    assert me.audit()[0]["action"] == "backup_downloaded"

    cli(tmp_path / "restored", "restore", str(file))
    assert SECRET in json.dumps(cli(tmp_path / "restored", "search", SECRET))
    assert {user["name"] for user in cli(tmp_path / "restored", "users", "list")["users"]} >= {"local", "ann"}


@pytest.mark.parametrize("what", ["export", "backup"])
def test_downloads_need_a_sign_in_and_our_own_origin(server: Http, me: Person, what: str) -> None:
    assert server.client.post(f"/api/{what}").status_code == 401
    assert server.client.post(f"/api/{what}", headers=server.headers()).status_code == 401  # a key is no person
    for headers in ({"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
        assert me.ask("POST", f"/api/{what}", headers=headers).status_code == 403
    assert me.ask("GET", f"/api/{what}").status_code == 405  # a link leads to no download


def test_without_sign_ins_there_is_no_backup_and_only_served_families(tmp_path: Path) -> None:
    with http_server(tmp_path, "--auth", "none", "--families", "vault", "--embedder", "none") as server:
        refused = server.client.post("/api/backup")
        assert (refused.status_code, refused.json()["error"]) == (403, "scope_required")
        with zipfile.ZipFile(io.BytesIO(server.client.post("/api/export").content)) as archive:
            assert set(archive.namelist()) == {"README.md", "export.json", "vault.jsonl"}


def test_one_download_at_a_time_and_a_disconnect_leaves_no_file(server: Http, me: Person, ann: Person) -> None:
    large = server.data_dir / "stores" / "default" / "large.bin"
    large.write_bytes(os.urandom(40_000_000))  # more than fits on the way
    headers = {"Cookie": f"{COOKIE}={me.cookie}"}
    try:
        with httpx.stream("POST", f"{server.url}/api/export", headers=headers, timeout=60) as first:
            assert first.status_code == 200
            assert leftovers(server)
            second = me.ask("POST", "/api/export")
            assert (second.status_code, second.json()["error"]) == (409, "conflict")
            assert ann.ask("POST", "/api/export").status_code == 200
        eventually(lambda: not leftovers(server))
    finally:
        large.unlink()
    assert me.ask("POST", "/api/export").status_code == 200


def test_a_disconnect_while_the_file_is_written_leaves_no_file(server: Http, me: Person) -> None:
    folder = server.data_dir / "stores" / "default" / "many"
    folder.mkdir(exist_ok=True)
    for number in range(1500):
        (folder / f"{number}.md").write_text("x" * 10_000)
    headers = {"Cookie": f"{COOKIE}={me.cookie}"}
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{server.url}/api/export", headers=headers, timeout=httpx.Timeout(30, read=0.05))
    eventually(lambda: not leftovers(server))
    eventually(lambda: me.ask("POST", "/api/export", timeout=60).status_code == 200)


def test_a_file_that_cannot_be_sent_is_deleted(tmp_path: Path) -> None:
    deleted: list[bool] = []
    gone = TemporaryFileResponse(tmp_path / "gone.zip", "gone.zip", {}, lambda: deleted.append(True))

    async def silence() -> Message:
        await anyio.sleep_forever()
        raise AssertionError

    async def send(message: Message) -> None:
        """A send that no client reads."""

    with pytest.raises(RuntimeError, match="does not exist"):
        anyio.run(gone, {"type": "http", "method": "POST", "headers": []}, silence, send)
    assert deleted == [True]
