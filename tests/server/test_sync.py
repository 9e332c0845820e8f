"""Syncing over REST, with a hub and two servers as real processes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.events import eventually
from tests.server.test_rest import Person, cli, signed_in
from tests.services.sync.processes import Hub, running_hub
from tests.wire import Http, http_server

SYNCING = ("--embedder", "none", "--sync-seconds", "1")


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    with running_hub(tmp_path_factory.mktemp("hub")) as running:
        yield running


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Http]:
    with http_server(tmp_path / "here", *SYNCING) as running:
        yield running


@pytest.fixture
def there(tmp_path: Path) -> Iterator[Http]:
    with http_server(tmp_path / "there", *SYNCING) as running:
        yield running


def post(person: Person, verb: str, **body: Any) -> dict[str, Any]:
    answer = person.ask("POST", f"/api/mcp/sync/{verb}", json=body)
    assert answer.status_code == 200, answer.text
    data: dict[str, Any] = answer.json()
    return data


def status(person: Person) -> dict[str, Any]:
    data: dict[str, Any] = person.ask("GET", "/api/mcp/sync/status").json()
    return data


def linked(server: Http, hub: Hub, **more: Any) -> Person:
    person = signed_in(server, server.link)
    post(person, "link", url=hub.url, key=hub.key(), **more)
    return person


def contents(server: Http) -> list[str]:
    found = server.modern_call("memory_recent", namespace="shared")["memories"]
    return sorted(memory["title"] for memory in found)


def test_a_write_on_one_server_reaches_the_other(hub: Hub, here: Http, there: Http) -> None:
    both = linked(here, hub), linked(there, hub)
    for person in both:
        post(person, "enable", namespace="shared")
    here.modern_call("memory_create", content="from here", namespace="shared")
    there.modern_call("memory_create", content="from there", namespace="shared")
    here.modern_call("memory_create", content="for no other server")
    for server in (here, there):
        eventually(lambda at=server: contents(at) == ["from here", "from there"])  # type: ignore[misc]
    assert there.modern_call("memory_search", query="other server")["memories"] == []
    [arrived] = there.modern_call("memory_search", query="here", namespace="shared")["memories"]
    assert there.modern_call("memory_get", id=arrived["id"])["source"] == "sync"
    shown = eventually(lambda: next((one for one in status(both[0])["namespaces"] if not one["outbox"]), None))
    assert (shown["namespace"], shown["notes"], shown["enabled"]) == ("shared", 2, True)
    assert status(both[0])["set_aside"] == []


def test_a_disabled_namespace_waits(hub: Hub, here: Http) -> None:
    person = linked(here, hub)
    post(person, "enable", namespace="waiting")
    assert not post(person, "disable", namespace="waiting")["namespaces"][0]["enabled"]
    here.modern_call("memory_create", content="later", namespace="waiting")
    assert post(person, "now")["pushed"] == 0
    assert status(person)["namespaces"][0]["outbox"] == 1
    post(person, "enable", namespace="waiting")
    eventually(lambda: status(person)["namespaces"][0]["outbox"] == 0)


def test_resync_and_clear_state_lose_nothing(hub: Hub, here: Http) -> None:
    person = linked(here, hub)
    post(person, "enable", namespace="again")
    here.modern_call("memory_create", content="kept", namespace="again")
    eventually(lambda: status(person)["namespaces"][0]["outbox"] == 0)
    assert post(person, "resync", namespace="again")["namespaces"][0]["outbox"] == 1
    eventually(lambda: status(person)["namespaces"][0]["outbox"] == 0)
    assert post(person, "clear-state", namespace="again")["namespaces"] == []
    assert here.modern_call("memory_recent", namespace="again")["memories"][0]["title"] == "kept"
    refused = person.ask("POST", "/api/mcp/sync/resync", json={"namespace": "again"})
    assert (refused.status_code, refused.json()["error"]) == (404, "not_found")


def test_linking_refuses_a_server_that_is_no_hub(hub: Hub, here: Http) -> None:
    person = signed_in(here, here.link)
    for body, code in (
        ({"url": "http://127.0.0.1:9", "key": "x"}, 503),
        ({"url": hub.url, "key": "mmcp_wrong"}, 422),
        ({"url": hub.url, "key": "schlüssel"}, 422),
        ({"url": hub.url + "/healthz#", "key": "x"}, 422),
        ({"url": "http://[:::]:8766", "key": "x"}, 422),
        ({"url": "ftp://somewhere", "key": "x"}, 422),
        ({"url": hub.url, "key": hub.key(), "secret": "short"}, 422),
    ):
        refused = person.ask("POST", "/api/mcp/sync/link", json=body)
        assert refused.status_code == code, refused.text
    assert not status(person)["linked"]
    assert person.ask("POST", "/api/mcp/sync/enable", json={"namespace": "x"}).json()["error"] == "conflict"
    assert person.ask("POST", "/api/mcp/sync/now").json()["error"] == "conflict"


def test_without_notes_there_is_nothing_to_sync(tmp_path: Path) -> None:
    with http_server(tmp_path, "--families", "vault", "--embedder", "none") as server:
        person = signed_in(server, server.link)
        for method, verb in (("GET", "status"), ("POST", "now"), ("POST", "unlink")):
            refused = person.ask(method, f"/api/mcp/sync/{verb}")
            assert (refused.status_code, refused.json()["error"]) == (403, "scope_required")


def test_a_secret_is_shown_once(hub: Hub, here: Http, there: Http) -> None:
    person = signed_in(here, here.link)
    made = post(person, "link", url=hub.url, key=hub.key(), encrypt=True)
    assert made["secret"].startswith("mms_")
    assert made["secret"] not in str(status(person))
    assert status(person)["encrypted"]
    other = signed_in(there, there.link)
    assert post(other, "link", url=hub.url, key=hub.key(), secret=made["secret"])["secret"] is None


def test_only_the_owner_chooses_a_hub(hub: Hub, here: Http) -> None:
    cli(here.data_dir, "users", "add", "ann")
    ann = signed_in(here, cli(here.data_dir, "users", "link", "ann")["link"])
    refused = ann.ask("POST", "/api/mcp/sync/link", json={"url": hub.url, "key": hub.key()})
    assert (refused.status_code, refused.json()["error"]) == (403, "scope_required")
    assert not status(ann)["linked"]


def test_metrics_show_the_sync_lag(hub: Hub, here: Http) -> None:
    person = linked(here, hub)
    post(person, "enable", namespace="measured")
    eventually(lambda: status(person)["synced_at"])
    text = here.client.get("/metrics").text
    assert "memory_mcp_sync_outbox 0.0" in text
    lag = next(float(line.split()[1]) for line in text.splitlines() if line.startswith("memory_mcp_sync_lag_seconds "))
    assert 0 <= lag < 30
