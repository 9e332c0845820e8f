"""Portals in files of two servers on one PostgreSQL: each user's are on one of them, and the other forwards calls."""

import base64
import json
import re
import shutil
import threading
import time
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest

from memory_mcp import settings
from memory_mcp.app import open_app
from memory_mcp.app.access import Access, open_access
from memory_mcp.caller import ALL_SCOPES, LOCAL_USER, Caller
from memory_mcp.engines.chdb.client import EngineConnections
from memory_mcp.engines.chdb.process import wait_until_ended
from memory_mcp.engines.files.lock import FileLock
from memory_mcp.errors import Invalid
from memory_mcp.services.server_calls import PATH, sign
from tests.deploy.test_nginx import _free_ports
from tests.events import eventually
from tests.families.portals.test_disconnects import ENDLESS, running
from tests.processes import environment, run
from tests.server.test_rest import Person, cli, signed_in
from tests.wire import Http, http_server, modern_meta

FAMILIES = "portals,recall,notes"
PORTAL = "mem://tests/shared"
CREW = [{"name": "Ada", "role": "pilot of the zeppelin"}, {"name": "Bob", "role": "cook"}]


def chosen(data_dir: Path, url: str) -> settings.Settings:
    return settings.load({"data_dir": data_dir, "database_url": url}, environ={}).settings


@dataclass
class Servers:
    """The servers A and B, which can be killed and started again."""

    folder: Path
    postgres_url: str
    ports: dict[str, int]
    stacks: dict[str, ExitStack]
    key: str = ""

    @contextmanager
    def access(self) -> Iterator[Access]:
        with open_access(chosen(self.folder / "a", self.postgres_url)) as access:
            yield access

    def start(self, name: str, *more: str, **process: Any) -> Http:
        port = self.ports[name]
        flags = ["--database-url", self.postgres_url, "--families", FAMILIES, "--embedder", "none"]
        flags += ["--server-url", f"http://127.0.0.1:{port}", *more]
        self.stacks[name] = ExitStack()
        server = self.stacks[name].enter_context(http_server(self.folder / name, *flags, port=port, **process))
        if not self.key:
            with self.access() as access:
                self.key = access.keys.create(name="tests").raw
        return replace(server, key=self.key)

    def kill(self, name: str) -> None:
        self.stacks.pop(name).close()

    def close(self) -> None:
        for stack in self.stacks.values():
            stack.close()


@pytest.fixture
def servers(tmp_path: Path, postgres_url: str) -> Iterator[Servers]:
    made = Servers(tmp_path, postgres_url, dict(zip("ab", _free_ports(2), strict=True)), {})
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def a(servers: Servers) -> Http:
    return servers.start("a")


@pytest.fixture
def b(servers: Servers, a: Http) -> Http:
    return servers.start("b")


def error(server: Http, tool: str, **arguments: Any) -> dict[str, Any]:
    """Of a call that must be refused."""
    result = server.modern("tools/call", {"name": tool, "arguments": arguments})["result"]
    assert result["isError"], result
    refused: dict[str, Any] = result["structuredContent"]
    return refused


def listed(server: Http) -> set[str]:
    """The portals in resources/list, and the viewer."""
    resources = server.modern("resources/list")["result"]["resources"]
    return {one["uri"] for one in resources if one["uri"].startswith(("mem://", "ui://"))}


def write(server: Http, *rows: dict[str, Any], portal: str = PORTAL, table: str = "crew") -> dict[str, Any]:
    return server.modern_call("portal_write", portalUri=portal, table=table, data=list(rows))


def names(server: Http, portal: str = PORTAL) -> list[str]:
    found = server.modern_call("portal_query", portalUri=portal, sql="SELECT name FROM crew ORDER BY name")
    assert "rows" in found, found
    return [row["name"] for row in found["rows"]]


def portals_in(servers: Servers, name: str) -> set[str]:
    """Of all users. Temporary folders are left out: they come and go."""
    folder = servers.folder / name
    found = (path for users in (".", "users/*") for path in folder.glob(f"{users}/portals/*/*/portal.json"))
    return {str(path.parent.relative_to(folder)) for path in found}


def key_of(servers: Servers, user: str, **more: Any) -> str:
    with servers.access() as access:
        if user not in {one.name for one in access.users.all()}:
            access.users.add(user)
        return access.keys.create(name="laptop", user=access.users.get(user).id, **more).raw


def test_every_tool_and_resource_works_at_the_other_server(servers: Servers, a: Http, b: Http) -> None:
    assert write(a, *CREW) == {"portalUri": PORTAL, "table": "crew", "written": 2}
    assert names(b) == ["Ada", "Bob"]
    assert write(b, {"name": "Cem", "role": "radio"})["written"] == 1
    assert names(a) == names(b) == ["Ada", "Bob", "Cem"]
    assert (portals_in(servers, "a"), portals_in(servers, "b")) == ({"portals/tests/shared"}, set())
    sql = "SELECT name FROM crew WHERE role = {r:String}"
    found = b.modern_call("portal_query", portalUri=PORTAL, sql=sql, parameters={"r": "cook"}, format="arrays")
    assert found["rows"] == [["Bob"]]
    views = [one.modern_call("portal_view", portalUri=PORTAL) for one in (a, b)]
    assert [view["tables"] for view in views] == [views[0]["tables"]] * 2
    assert [table["rows"] for table in views[1]["tables"]] == [3]
    for uri in (PORTAL, f"{PORTAL}/crew?limit=2&order=-name"):
        read = [one.modern("resources/read", {"uri": uri})["result"]["contents"] for one in (a, b)]
        assert read[0][0]["text"] == read[1][0]["text"], uri
    assert listed(b) == {"ui://memory/viewer", PORTAL}
    assert "Cem" in b.modern_call("recall_open", ref=f"{PORTAL}/crew")["content"]
    [group] = [one for one in b.modern_call("recall_overview")["families"] if one["family"] == "portals"]
    assert (group["count"], [one["name"] for one in group["groups"]]) == (3, [PORTAL])
    deleted = b.modern_call("portal_delete", portalUri=PORTAL, table="crew", where={"name": "Bob"})
    assert deleted["deleted"] == 1
    assert names(a) == ["Ada", "Cem"]


def test_a_users_first_portal_is_where_it_is_written(servers: Servers, a: Http, b: Http) -> None:
    write(b, *CREW)
    assert (portals_in(servers, "a"), portals_in(servers, "b")) == (set(), {"portals/tests/shared"})
    write(a, {"name": "Dee"}, portal="mem://tests/second")
    assert (portals_in(servers, "a"), len(portals_in(servers, "b"))) == (set(), 2)
    ann = replace(a, key=key_of(servers, "ann"))
    write(ann, {"name": "Eve"})
    assert names(replace(b, key=ann.key)) == ["Eve"]
    assert len(portals_in(servers, "a")) == 1


def test_the_errors_of_the_other_server_are_the_same(a: Http, b: Http) -> None:
    write(a, *CREW)
    calls: dict[str, dict[str, Any]] = {
        "portal_query": {"portalUri": PORTAL, "sql": "SELECT rol FROM crew"},
        "portal_delete": {"portalUri": PORTAL, "table": "crow"},
        "portal_view": {"portalUri": "mem://tests/shred"},
        "portal_write": {"portalUri": PORTAL, "table": "_x", "data": [{"n": 1}]},
    }
    for tool, arguments in calls.items():
        assert error(a, tool, **arguments) == error(b, tool, **arguments), tool
    resource = [one.modern("resources/read", {"uri": f"{PORTAL}/crow"})["error"] for one in (a, b)]
    assert resource[0] == resource[1]
    assert resource[0]["data"]["error"] == "not_found"


def recalled(server: Http, query: str) -> list[dict[str, Any]]:
    """The hits, once everything is indexed: on a busy machine that takes longer than a call waits."""
    hits: list[dict[str, Any]] = []

    def is_complete() -> bool:
        answer = server.modern_call("recall_memories", query=query)
        hits[:] = answer["hits"]
        return not answer["incomplete"]

    eventually(is_complete)
    return hits


def test_recall_at_the_other_server_finds_rows(a: Http, b: Http) -> None:
    write(a, *CREW)
    assert [(hit["family"], hit["ref"]) for hit in recalled(b, "zeppelin")] == [("portals", f"{PORTAL}/crew")]
    write(b, {"name": "Fay", "role": "balloonist"})
    assert len(recalled(b, "balloonist")) == 1
    a.modern_call("portal_delete", portalUri=PORTAL, table="crew", where={"name": "Ada"})
    assert recalled(b, "zeppelin") == []


def test_a_server_that_is_down_makes_only_its_portals_unavailable(servers: Servers, a: Http, b: Http) -> None:
    write(a, *CREW)
    ann = key_of(servers, "ann")
    write(replace(b, key=ann), {"name": "Eve"})
    b.modern_call("memory_create", content="The zeppelin has a leak")
    b.modern_call("recall_memories", query="zeppelin")
    servers.kill("a")
    calls: dict[str, dict[str, Any]] = {
        "portal_query": {"sql": "SELECT 1"},
        "portal_write": {"table": "crew", "data": [{"name": "Gus"}]},
        "portal_view": {},
    }
    for tool, arguments in calls.items():
        refused = error(b, tool, portalUri=PORTAL, **arguments)
        assert (refused["error"], refused["data"]) == ("unavailable", {"retry_after": 5}), tool
        assert "does not answer" in refused["message"]
    found = b.modern_call("recall_memories", query="zeppelin")
    assert [hit["family"] for hit in found["hits"] if hit["family"] == "notes"] == ["notes"]
    assert [one["family"] for one in found["incomplete"]] == ["portals"]
    assert "does not answer" in found["incomplete"][0]["error"]
    assert "does not answer" in b.modern_call("recall_overview")["notice"]
    assert names(replace(b, key=ann)) == ["Eve"]
    servers.start("a")
    assert names(b) == ["Ada", "Bob"]


def test_a_server_may_come_back_at_another_address(servers: Servers, a: Http, b: Http) -> None:
    write(a, *CREW)
    servers.kill("a")
    [servers.ports["a"]] = _free_ports(1)
    servers.start("a")
    assert names(b) == ["Ada", "Bob"]


def test_a_server_that_is_killed_leaves_a_write_in_doubt_but_not_a_read(servers: Servers, a: Http, b: Http) -> None:
    write(a, *CREW)
    folder = servers.folder / "a" / "portals" / "tests" / "shared"
    engine = EngineConnections(folder, {"max_execution_time": 5})
    row = {"table": "crew", "data": [{"name": "Gus"}]}
    answers: dict[str, dict[str, Any]] = {}
    callers = [
        threading.Thread(target=lambda: answers.update(written=error(b, "portal_write", portalUri=PORTAL, **row))),
        threading.Thread(target=lambda: answers.update(read=error(b, "portal_query", portalUri=PORTAL, sql=ENDLESS))),
    ]
    with FileLock(folder / ".write.lock").acquire():  # as another server that writes
        for caller in callers:
            caller.start()
        eventually(lambda: running(engine) == 1)
        eventually(lambda: forwarded_calls(a) == {"reading": 1, "writing": 1})
        engine.close()
        servers.kill("a")
        for caller in callers:
            caller.join()
    assert {name: answer["error"] for name, answer in answers.items()} == dict.fromkeys(answers, "unavailable")
    assert answers["written"]["data"]["may_have_happened"] is True
    assert "may_have_happened" not in answers["read"]["data"]


def forwarded_calls(server: Http) -> dict[str, int]:
    """How many calls of other servers it is answering."""
    found = re.findall(r'threads_busy{pool="forwarded-(\w+)"} (\d+)', server.client.get("/metrics").text)
    return {name: int(count) for name, count in found}


def test_a_client_that_leaves_stops_the_query_at_the_other_server(servers: Servers) -> None:
    a, b = (servers.start(name, "--portal-seconds", "600") for name in "ab")  # by itself it would not end in time
    write(a, *CREW)
    engine = EngineConnections(servers.folder / "a" / "portals" / "tests" / "shared", {"max_execution_time": 5})
    with httpx.Client(base_url=b.url, timeout=None) as client:  # noqa: S113  # it is closed below
        leaving = replace(b, client=client)
        request = {"name": "portal_query", "arguments": {"portalUri": PORTAL, "sql": ENDLESS}}
        with ExitStack() as stack:
            stream = client.stream(
                "POST",
                "/mcp",
                json={"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {**request, "_meta": modern_meta()}},
                headers=leaving.headers(**leaving.modern_headers("tools/call", request)),
            )
            caller = threading.Thread(target=_ignore_errors, args=(stack, stream))
            caller.start()
            eventually(lambda: running(engine) == 1)
            client.close()
            eventually(lambda: running(engine) == 0)
            caller.join()
    engine.close()


def _ignore_errors(stack: ExitStack, stream: Any) -> None:
    try:
        stack.enter_context(stream)
    except (httpx.HTTPError, OSError):
        return


def test_another_tenant_and_a_confined_key_see_nothing_of_it(servers: Servers, a: Http, b: Http) -> None:
    write(a, *CREW)
    write(a, {"name": "Hal"}, portal="mem://other/crew")
    ann = replace(b, key=key_of(servers, "ann"))
    assert error(ann, "portal_view", portalUri=PORTAL)["error"] == "not_found"
    assert listed(ann) == {"ui://memory/viewer"}
    assert ann.modern_call("recall_memories", query="zeppelin")["hits"] == []
    confined = replace(b, key=key_of(servers, LOCAL_USER, namespace="other", is_confined=True))
    assert names(confined, "mem://other/crew") == ["Hal"]
    missing = [error(one, "portal_view", portalUri=PORTAL) for one in (confined, replace(a, key=confined.key))]
    assert missing[0] == missing[1]
    assert missing[0]["error"] == "not_found"
    assert listed(confined) == {"ui://memory/viewer", "mem://other/crew"}
    assert confined.modern_call("recall_memories", query="zeppelin")["hits"] == []
    reader = replace(b, key=key_of(servers, LOCAL_USER, scopes=frozenset({"read_memory"})))
    assert error(reader, "portal_write", portalUri=PORTAL, table="crew", data=[{"name": "x"}])["error"] == (
        "scope_required"
    )


@pytest.fixture
def secret(servers: Servers, a: Http, b: Http) -> str:
    """That of the servers, which have forwarded a call."""
    write(a, *CREW)
    names(b)
    import psycopg

    with psycopg.connect(servers.postgres_url) as connection:
        [(found,)] = connection.execute("SELECT secret FROM memory.server_secrets").fetchall()
    return str(found)


def forward(
    server: Http,
    server_id: str,
    key: str,
    *,
    caller: str = LOCAL_USER,
    operation: str = "summaries",
    family: str = "portals",
    **headers: str,
) -> httpx.Response:
    body = json.dumps({"operation": operation, "arguments": {}}).encode()
    token = sign(key, server_id, Caller(caller, ALL_SCOPES, frozenset({family})), body)
    return server.client.post(PATH, content=body, headers={"Authorization": f"Bearer {token}", **headers})


def test_the_route_of_servers_takes_nothing_that_no_server_has_signed_for_it(
    servers: Servers, a: Http, b: Http, secret: str
) -> None:
    ids = {name: (servers.folder / name / "server_id").read_text() for name in "ab"}
    answer = forward(a, ids["a"], secret)
    assert answer.status_code == 200
    assert [one["uri"] for one in json.loads(answer.text.splitlines()[-1])["answer"]] == [PORTAL]
    now, body = int(time.time()), b'{"operation": "summaries", "arguments": {}}'
    claims = {"aud": ids["a"], "exp": now + 20, "caller": {}, "body": sha256(body).hexdigest()}
    for refused in (
        forward(a, ids["a"], "another secret of thirty-two bytes"),
        forward(a, ids["b"], secret),  # it was made for the other server
        forward(a, ids["a"], secret, Origin=a.url),
        forward(a, ids["a"], secret, Cookie="memory_mcp_sign_in=x"),
        forward(a, ids["a"], secret, **{"Sec-Fetch-Site": "same-origin"}),
        a.client.post(PATH, content=body),
        a.client.post(PATH, content=body, headers=a.headers()),  # the key of a user
        *(
            a.client.post(PATH, content=body, headers={"Authorization": f"Bearer {token}"})
            for token in (
                jwt.encode({**claims, "exp": now - 120}, secret),
                jwt.encode(claims, secret),  # for no caller
                jwt.encode(claims, "", algorithm="none"),
                sign(secret, ids["a"], Caller(LOCAL_USER, ALL_SCOPES, frozenset({"portals"})), b"another body"),
            )
        ),
    ):
        assert refused.status_code == 401, refused.text
        assert PORTAL not in refused.text
    assert a.client.get(PATH).status_code == 401
    answer = forward(b, ids["b"], secret)  # which has not the portals of this user
    assert json.loads(answer.text.splitlines()[-1])["error"]["code"] == "unavailable"
    answer = forward(a, ids["a"], secret, caller="unknown")
    assert json.loads(answer.text.splitlines()[-1])["answer"] == []


def test_an_operation_of_another_version_is_refused_with_the_reason(servers: Servers, a: Http, secret: str) -> None:
    answer = forward(a, (servers.folder / "a" / "server_id").read_text(), secret, operation="of_a_newer_version")
    assert answer.status_code == 422
    assert "Run the same version on all servers." in answer.json()["message"]


def test_a_caller_without_the_family_is_refused(servers: Servers, a: Http, secret: str) -> None:
    answer = forward(a, (servers.folder / "a" / "server_id").read_text(), secret, family="notes")
    assert (answer.status_code, answer.json()["message"]) == (422, "This caller may not use the family portals.")


def test_too_large_a_body_is_refused(servers: Servers, a: Http, secret: str) -> None:
    body = b'{"operation": "' + b"x" * 9_000_000 + b'"}'
    server_id = (servers.folder / "a" / "server_id").read_text()
    token = sign(secret, server_id, Caller(LOCAL_USER, ALL_SCOPES, frozenset({"portals"})), body)
    answer = a.client.post(PATH, content=body, headers={"Authorization": f"Bearer {token}"})
    assert answer.status_code == 413


def test_the_journal_lists_writes_through_either_server(a: Http, b: Http, servers: Servers) -> None:
    write(a, *CREW)
    write(b, {"name": "Ida"})
    [table] = b.modern_call("portal_view", portalUri=PORTAL)["tables"]
    assert table["origin"] == "wire with key tests"
    for server in (a, b):
        person = person_at(servers, server)
        found = person.ask("GET", "/api/journal").json()
        assert [(one["ref"], one["rows"]) for one in found["writes"]] == [(f"{PORTAL}/crew", 1), (f"{PORTAL}/crew", 2)]
    servers.kill("a")
    assert person.ask("GET", "/api/journal").json()["incomplete"].keys() == {"portals"}


def test_rows_are_undone_through_either_server(a: Http, b: Http, servers: Servers) -> None:
    write(a, *CREW)
    write(b, {"name": "Ida"})
    for server in (a, b):
        person = person_at(servers, server)
        last = person.ask("GET", "/api/journal", params={"source": "mcp"}).json()["writes"][0]
        chosen_writes = {"ids": [last["id"]]}
        planned = person.ask("POST", "/api/journal/preview", json=chosen_writes).json()
        assert [(one["outcome"], one["rows"]) for one in planned["items"]] == [("delete", 1)]
        undone = person.ask("POST", "/api/journal/undo", json=chosen_writes).json()
        assert (undone["items"], undone["rows_deleted"]) == (planned["items"], 1)
        assert names(a) == names(b) == ["Ada", "Bob"]
        assert [one["undone"] for one in person.ask("GET", "/api/journal").json()["writes"][:2]] == [False, True]
        back = person.ask("POST", "/api/journal/undo", json={"undo_id": undone["undo_id"]}).json()
        assert back["rows_restored"] == 1
        assert names(a) == names(b) == ["Ada", "Bob", "Ida"]
    servers.kill("a")
    report = person.ask("POST", "/api/journal/undo", json={"family": "portals"}).json()
    assert (report["rows_deleted"], list(report["incomplete"])) == (0, ["portals"])


def person_at(servers: Servers, server: Http) -> Person:
    with servers.access() as access:
        token = access.sign_ins.create_link_token(LOCAL_USER)
    return signed_in(server, f"{server.url}/sign-in?token={token}")


def test_pages_see_portals_of_the_other_server_and_upload_and_download_there(
    servers: Servers, a: Http, b: Http
) -> None:
    write(a, *CREW)
    person = person_at(servers, b)
    [portal] = person.ask("GET", "/api/portals").json()["portals"]
    assert (portal["uri"], portal["tables"], portal["rows"]) == (PORTAL, ["crew"], 2)
    assert person.ask("GET", "/api/overview").json()["portals"] == {"portals": 1, "tables": 1, "rows": 2}

    def run(tool: str, **arguments: Any) -> dict[str, Any]:
        answer = person.ask("POST", f"/api/tools/{tool}", json=arguments)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    source = run("portal_upload", name="crew.csv", data=base64.b64encode(b"name,role\nJoe,cook\n").decode())["source"]
    preview = run("portal_preview", portalUri=PORTAL, source=source, format="csv", table="crew")
    assert preview["rows"] == [["Joe", "cook"]]
    assert run("portal_import", portalUri=PORTAL, source=source, format="csv", table="crew")["imported"] == 1
    run("portal_export", portalUri=PORTAL, destination="downloads/x.csv", format="csv", table="crew")
    piece = run("portal_download", destination="downloads/x.csv")
    assert sorted(base64.b64decode(piece["data"]).decode().split())[:1] == ['"Ada","pilot']
    assert not list((servers.folder / "b").glob("imports/uploads/*"))


def test_an_export_has_the_portals_of_the_other_server_and_imports_there(servers: Servers, a: Http, b: Http) -> None:
    write(a, *CREW)
    person = person_at(servers, b)
    answer = person.ask("POST", "/api/export", timeout=60)
    assert (answer.status_code, answer.headers["memory-left-out"]) == (200, "0")
    found = zipfile.ZipFile(BytesIO(answer.content)).namelist()
    wanted = {"portals/tests/shared.db", "portals/tests/shared/crew.csv", "portals/tests/shared/crew.parquet"}
    assert wanted <= set(found)
    assert portals_in(servers, "b") == set()


def test_calls_in_both_directions_do_not_wait_for_each_other(servers: Servers) -> None:
    """Each server has two threads for calls that read, and all of them wait for the other server."""
    few = ("--read-threads", "2")
    a, b = servers.start("a", *few), servers.start("b", *few)
    ann = key_of(servers, "ann")
    write(a, *CREW)
    write(replace(b, key=ann), *CREW)
    found: list[list[str]] = []

    def ask(server: Http) -> None:
        for _ in range(4):
            found.append(names(server))

    callers = [threading.Thread(target=ask, args=(one,)) for one in (b, replace(a, key=ann)) for _ in range(3)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert found == [["Ada", "Bob"]] * 24


def test_the_files_of_a_removed_user_are_deleted_where_they_are(servers: Servers, postgres_url: str) -> None:
    a = servers.start("a", "--session-idle", "1")  # housekeeping comes four times as often
    b = servers.start("b")
    ann = key_of(servers, "ann")
    write(replace(a, key=ann), {"name": "Eve"})
    assert names(replace(b, key=ann)) == ["Eve"]
    with open_access(chosen(servers.folder / "b", postgres_url)) as access:
        user = access.users.remove("ann")
        access.delete_data(user.id)
    eventually(lambda: not (servers.folder / "a" / "users" / user.id).exists())
    write(a, *CREW)
    assert names(b) == ["Ada", "Bob"]


def test_a_users_portals_move_by_a_copy_and_a_command(servers: Servers, a: Http, b: Http, postgres_url: str) -> None:
    write(a, *CREW)
    where = ("--database-url", postgres_url)
    refused = run("portal", "claim", "local", "--data-dir", servers.folder / "b", *where)
    assert (refused.returncode, "has no portals of that user" in refused.stderr) == (1, True)
    servers.kill("a")
    leaving = (servers.folder / "a" / "portals").rename(servers.folder / "leaving")  # so its engines end
    wait_until_ended(leaving / "tests" / "shared")
    shutil.copytree(leaving, servers.folder / "b" / "portals", symlinks=True, ignore=shutil.ignore_patterns("*.sock"))
    claimed = cli(servers.folder / "b", "portal", "claim", "local", *where)
    assert claimed == {"user": "local", "server": f"http://127.0.0.1:{servers.ports['b']}"}
    assert names(b) == ["Ada", "Bob"]
    write(b, {"name": "Cem"})
    assert names(servers.start("a")) == ["Ada", "Bob", "Cem"]
    found = cli(servers.folder / "b", "portal", "servers", *where)["servers"]
    assert {one["url"]: one["users"] for one in found} == {
        f"http://127.0.0.1:{servers.ports['a']}": 0,
        f"http://127.0.0.1:{servers.ports['b']}": 1,
    }


def test_a_data_directory_that_moved_to_postgres_keeps_its_portals(servers: Servers, postgres_url: str) -> None:
    with http_server(servers.folder / "a", "--embedder", "none") as before:
        write(before, *CREW)
    b = servers.start("b")
    a = servers.start("a")
    assert names(b) == names(a) == ["Ada", "Bob"]


def test_the_command_line_reaches_portals_of_the_other_server(servers: Servers, a: Http, b: Http) -> None:
    write(a, *CREW)
    env = environment(
        MEMORY_MCP_DATABASE_URL=servers.postgres_url,
        MEMORY_MCP_SERVER_URL=b.url,
        MEMORY_MCP_FAMILIES=FAMILIES,
        MEMORY_MCP_EMBEDDER="none",
    )

    def at_b(*arguments: str) -> dict[str, Any]:
        done = run(*arguments, "--data-dir", servers.folder / "b", "--json", check=True, env=env)
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    assert [(one["uri"], one["rows"]) for one in at_b("portal", "list")["portals"]] == [(PORTAL, 2)]
    at_b("export", str(servers.folder / "exported"))
    assert at_b("portal", "delete", PORTAL, "--yes")["deleted"] == 2
    assert listed(a) == {"ui://memory/viewer"}
    imported = at_b("import", "memory-mcp", str(servers.folder / "exported"))
    assert imported["new"]["portals"] == 1, imported
    assert names(a) == names(b) == ["Ada", "Bob"]
    assert portals_in(servers, "b") == set()


def test_without_an_address_portals_are_refused(tmp_path: Path, postgres_url: str) -> None:
    options = {"data_dir": tmp_path, "database_url": postgres_url, "families": FAMILIES}
    without = settings.load(options, environ={}).settings
    with (
        pytest.raises(Invalid, match="with --server-url, or a ClickHouse server with --portals-url"),
        open_app(without),
    ):
        raise AssertionError
