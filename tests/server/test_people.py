"""Users are managed by the owner of the server alone."""

import json
from collections.abc import Iterator

import pytest

from tests.server.test_rest import Person, cli, signed_in
from tests.wire import Http, http_server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Http]:
    with http_server(tmp_path_factory.mktemp("people"), "--embedder", "none") as running:
        yield running


@pytest.fixture(scope="module")
def me(server: Http) -> Person:
    return signed_in(server, server.link)


def test_the_owner_manages_users_as_the_command_line_does(server: Http, me: Person) -> None:
    added = me.ask("POST", "/api/users", json={"name": "ann", "plan": "pro"})
    assert (added.status_code, added.json()["requests_a_minute"], added.json()["is_owner"]) == (201, 120, False)
    assert me.ask("POST", "/api/users", json={"name": "ANN"}).status_code == 409
    refused = me.ask("POST", "/api/users", json={"name": "../x"})
    assert (refused.status_code, refused.json()["detail"].partition(" has")[0]) == (422, "A user's name")
    assert [user["name"] for user in cli(server.data_dir, "users", "list")["users"]] == ["local", "ann"]

    assert me.ask("POST", "/api/users/ann/password", json={"password": "short"}).status_code == 422
    assert me.ask("POST", "/api/users/ann/password", json={"password": "correct horse battery"}).status_code == 204
    answer = server.client.post("/api/sign-in", json={"name": "ann", "password": "correct horse battery"})
    assert answer.json()["is_owner"] is False
    server.client.cookies.clear()
    link = me.ask("POST", "/api/users/ann/link").json()["link"]
    ann = signed_in(server, link)
    assert ann.ask("GET", "/api/users").status_code == 403
    for path in ("plan", "password", "link"):
        assert ann.ask("POST", f"/api/users/local/{path}", json={"nothing": "that fits"}).status_code == 403
    assert ann.ask("DELETE", "/api/users/local").status_code == 403

    assert me.ask("DELETE", "/api/users/local").status_code == 422
    removed = me.ask("DELETE", "/api/users/ann", params={"delete_data": True})
    assert removed.json() == {"name": "ann", "data_deleted": True}
    assert ann.ask("GET", "/api/me").status_code == 401
    actions = [entry["action"] for entry in me.audit()]
    assert actions[:4] == ["user_removed", "link_created", "password_set", "user_added"]


def test_without_sign_ins_no_user_is_managed(tmp_path_factory: pytest.TempPathFactory) -> None:
    with http_server(tmp_path_factory.mktemp("open"), "--embedder", "none", "--auth", "none") as server:
        assert server.client.get("/api/me").json()["is_owner"] is False
        assert server.client.post("/api/users/local/link").status_code == 403


def test_no_page_of_another_site_and_no_malformed_request_changes_users(server: Http, me: Person) -> None:
    before = me.ask("GET", "/api/users").json()
    for method, path in (
        ("POST", "/api/users"),
        ("POST", "/api/users/local/plan"),
        ("POST", "/api/users/local/password"),
        ("POST", "/api/users/local/link"),
        ("DELETE", "/api/users/local"),
    ):
        for headers in ({"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
            assert me.ask(method, path, headers=headers).status_code == 403
        assert server.client.request(method, path).status_code == 401
    for password in ("x" * 9, "x" * 73, "x" * 201, "\ud800" * 12):
        content = json.dumps({"password": password})
        answer = me.ask(
            "POST", "/api/users/local/password", content=content, headers={"Content-Type": "application/json"}
        )
        assert answer.status_code == 422, password
        assert "x" * 9 not in answer.text
    for name in ("missing", "x" * 65, "%00", "%2e%2e"):
        assert me.ask("POST", f"/api/users/{name}/link").status_code in (404, 422)
    assert me.ask("GET", "/api/users").json() == before
