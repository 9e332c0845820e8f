"""What one user keeps is to another as if it were not there: asked of every tool, resource, template and completion
that the server itself lists.

Ann keeps something in every family. Then three strangers with empty memories say the same things in the same order:
one with Ann's identifiers, one with unused identifiers, one with Ann's again on a server that never met her. Their
answers must be the same bytes. With MEMORY_TEST_ENGINES=postgres the memories of both servers are in PostgreSQL.
"""

import io
import json
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote
from uuid import uuid4

import httpx
import pytest
from typer.testing import CliRunner

from memory_mcp.app import open_app
from memory_mcp.app.postgres import is_in_postgres
from memory_mcp.caller import ALL_SCOPES, Caller, Scope
from memory_mcp.cli.common import new_session
from memory_mcp.cli.main import cli
from memory_mcp.conversations import hook_calls
from memory_mcp.families.registry import FAMILIES
from memory_mcp.settings import Settings, load
from tests.conftest import ERAS
from tests.exhaustive import sample
from tests.postgres import ENGINES, new_database
from tests.server.test_http import events_of
from tests.wire import HELLO, Http, http_server, modern_meta

ANNS, MISSING = "quokka", "numbat"  # in every name of Ann's, and in unused ones: as long, and one word
SECRET = "ombudswoman"  # in everything Ann keeps, and in nothing a stranger says
PAST = "2020-01-01T00:00:00Z"
SESSION_META = "memory-mcp/sessionId"
IN_POSTGRES = "postgres" in ENGINES
SHARED = Settings(shared_folder=Path("shared"))
SERVED = tuple(name for name, family in FAMILIES.items() if not IN_POSTGRES or is_in_postgres(family, SHARED))

Arguments = dict[str, Any]


@dataclass(frozen=True)
class Names:
    """Ann's identifiers, or unused ones of the same form."""

    code: str
    note: str
    linked_note: str
    archived_note: str
    user: str
    connection_session: str  # of a handshake; the server chose it
    data_dir: Path

    @property
    def key(self) -> str:
        return f"{self.code} key"

    @property
    def session(self) -> str:
        return f"{self.code}-session"

    @property
    def title(self) -> str:
        return f"{self.code} plans"

    @property
    def namespace(self) -> str:
        return f"{self.code}-namespace"

    @property
    def tag(self) -> str:
        return f"{self.code}-tag"

    @property
    def store(self) -> str:
        return f"{self.code}-store"

    @property
    def category(self) -> str:
        return f"{self.code}-category"

    @property
    def path(self) -> str:
        return f"{self.category}/{self.code}"

    @property
    def expired_path(self) -> str:
        return f"{self.category}/{self.code}-expired"

    @property
    def project(self) -> str:
        return f"{self.code}-project"

    @property
    def archived_project(self) -> str:
        return f"{self.code}-archived"

    @property
    def entity(self) -> str:
        return f"{self.code} entity"

    @property
    def other_entity(self) -> str:
        return f"{self.code} other"

    @property
    def relation(self) -> Arguments:
        return {"from": self.entity, "to": self.other_entity, "relation_type": f"{self.code}_knows"}

    @property
    def conversation(self) -> str:
        return f"hooks:{self.code}"

    @property
    def portal(self) -> str:
        return f"mem://{self.code}/{self.code}"

    @property
    def table(self) -> str:
        return f"{self.code}_table"

    @property
    def file(self) -> str:
        return f"{self.code}.csv"

    def absolute(self, folder: str) -> str:
        return str(self.data_dir / "users" / self.user / folder / self.file)

    def as_missing(self) -> "Names":
        return replace(
            self,
            code=MISSING,
            note=str(uuid4()),
            linked_note=str(uuid4()),
            archived_note=str(uuid4()),
            user=f"u{uuid4().hex[:16]}",
            connection_session=uuid4().hex,
        )

    def texts(self) -> list[str]:
        """All of them, the longer ones before those they contain."""
        ids = [self.note, self.linked_note, self.archived_note, self.user, self.connection_session]
        return [str(self.data_dir), *ids, self.code]


def in_project(its: Names) -> Arguments:
    return {"project": its.project}


def in_portal(its: Names, **more: Any) -> Arguments:
    return {"portalUri": its.portal, **more}


_ALL_CALLS: dict[str, Sequence[Callable[[Names], Arguments]]] = {
    # vault
    "commit_memory": [
        lambda its: {"scope": "vault", "key": its.key, "content": "plain"},
        lambda its: {"scope": "session", "key": its.key, "content": "plain, and more so"},
    ],
    "search_memories": [
        lambda its: {"query": its.code},
        lambda its: {"query": its.key, "scope": "vault"},
        lambda its: {"query": SECRET[:5] + "*", "scope": "all"},
        lambda its: {"query": "", "tags": [its.tag]},
        lambda its: {"query": "", "tags": [its.tag], "scope": "session"},
    ],
    "prune_memory": [
        lambda its: {"scope": "vault", "key": its.key},
        lambda its: {"scope": "session", "key": its.key},
        lambda its: {"scope": "all", "tags": [its.tag]},
        lambda its: {"scope": "vault", "older_than": "2100-01-01T00:00:00Z"},
        lambda its: {"scope": "session"},
    ],
    "set_session_id": [lambda its: {"session_id": its.session}],
    # recall
    "recall_memories": [
        lambda its: {"query": its.code},
        lambda its: {"query": SECRET[:5] + "*", "limit": 100},
        lambda its: {"query": its.title, "tags": [its.tag]},
        lambda its: {"query": its.key, "families": ["vault"]},
        lambda its: {"query": its.code, "families": ["stores", "graph", "portals"]},
    ],
    "recall_open": [
        lambda its: {"ref": f"memory://vault/{its.key}"},
        lambda its: {"ref": f"memory://session/{its.session}"},
        lambda its: {"ref": f"memory://note/{its.note}"},
        lambda its: {"ref": its.archived_note},
        lambda its: {"ref": f"memory://namespace/{its.namespace}"},
        lambda its: {"ref": f"memory://tag/{its.tag}"},
        lambda its: {"ref": f"stores:{its.store}/{its.path}"},
        lambda its: {"ref": f"stores:{its.store}/{its.category}"},
        lambda its: {"ref": f"stores:{its.store}"},
        lambda its: {"ref": f"graph:{its.project}/{its.entity}"},
        lambda its: {"ref": f"graph:{its.project}"},
        lambda its: {"ref": f"graph:{its.archived_project}"},
        lambda its: {"ref": f"{its.portal}/{its.table}"},
        lambda its: {"ref": its.portal},
        *(lambda its, ref=ref: {"ref": ref} for ref in ("memory://namespace/", "stores:", "graph:", "mem://")),
    ],
    "recall_overview": [lambda its: {}],
    # notes
    "memory_search": [
        lambda its: {"query": its.code},
        lambda its: {"query": its.title, "namespace": its.namespace},
        lambda its: {"tags": [its.tag]},
        lambda its: {"namespace": its.namespace},
        lambda its: {"query": SECRET[:5], "search_mode": "lexical"},
    ],
    "memory_get": [
        lambda its: {"id": its.note},
        lambda its: {"id": its.note, "include_links": True},
        lambda its: {"id": its.note, "version": 1},
        lambda its: {"id": its.archived_note},
    ],
    "memory_create": [
        lambda its: {"content": f"See [[{its.title}]] #{its.tag}", "title": "mine", "namespace": its.namespace},
        lambda its: {"content": "plain", "title": its.title, "tags": [its.tag]},
        lambda its: {"content": "plain", "supersedes": [its.note]},
    ],
    "memory_update": [
        lambda its: {"id": its.note, "content": "plain"},
        lambda its: {"id": its.archived_note, "remove_tags": ["archived"]},
        lambda its: {"id": its.note, "supersedes": [its.linked_note]},
    ],
    "memory_delete": [lambda its: {"id": its.note}, lambda its: {"id": its.note, "soft": False}],
    "memory_link": [lambda its: {"source_id": its.note, "target_id": its.archived_note, "bidirectional": True}],
    "memory_unlink": [lambda its: {"source_id": its.note, "target_id": its.linked_note}],
    "memory_list_namespaces": [lambda its: {}],
    "memory_list_tags": [lambda its: {}, lambda its: {"namespace": its.namespace}],
    "memory_recent": [lambda its: {}, lambda its: {"namespace": its.namespace}],
    "memory_neighbors": [lambda its: {"id": its.note, "depth": 3}],
    "memory_stats": [lambda its: {}, lambda its: {"namespace": its.namespace}],
    # stores
    "add_memory": [lambda its: {"store": its.store, "path": its.path, "content": "plain"}],
    "get_memory": [
        lambda its: {"store": its.store, "path": its.path},
        lambda its: {"store": its.store, "path": its.expired_path},
        lambda its: {"store": its.store, "path": its.expired_path, "include_expired": True},
        lambda its: {"store": its.store, "path": f"../../{its.user}/stores/{its.store}/{its.path}"},
    ],
    "update_memory": [lambda its: {"store": its.store, "path": its.path, "content": "plain too"}],
    "remove_memory": [
        lambda its: {"store": its.store, "path": its.expired_path},
        lambda its: {"store": its.store, "path": its.path},
    ],
    "move_memory": [
        lambda its: {"store": its.store, "from_path": its.path, "to_path": its.expired_path},
        lambda its: {"store": its.store, "from_path": its.expired_path, "to_path": its.path},
    ],
    "list_memories": [
        lambda its: {"store": its.store},
        lambda its: {"store": its.store, "category": its.category, "include_expired": True},
    ],
    "prune_memories": [lambda its: {"store": its.store}],
    "reindex_store": [lambda its: {"store": its.store}],
    "cortex_get_recent_memories": [
        lambda its: {"store": its.store, "include_expired": True},
        lambda its: {"store": its.store, "category": its.category},
    ],
    # graph
    "list_projects": [lambda its: {}, lambda its: {"status": "archived"}, lambda its: {"status": "all"}],
    "create_project": [lambda its: {"name": its.project}],
    "switch_project": [lambda its: {"name": its.project}, lambda its: {"name": its.archived_project}],
    "get_current_project": [lambda its: {}],
    "archive_project": [lambda its: {"name": its.archived_project}, lambda its: {"name": its.project}],
    "restore_project": [lambda its: {"name": its.archived_project}, lambda its: {"name": its.project}],
    "delete_project": [lambda its: {"name": its.archived_project}],
    "create_entities": [
        lambda its: in_project(its) | {"entities": [{"name": its.entity, "entity_type": "plain"}]},
        lambda its: {"entities": [{"name": its.other_entity, "entity_type": "plain", "observations": ["plain"]}]},
    ],
    "add_observations": [
        lambda its: in_project(its) | {"observations": [{"entity_name": its.entity, "contents": ["plain"]}]},
    ],
    "create_relations": [lambda its: in_project(its) | {"relations": [its.relation]}],
    "search_nodes": [
        lambda its: in_project(its) | {"query": its.code},
        lambda its: in_project(its) | {"query": SECRET},
        lambda its: {"query": its.entity},
    ],
    "open_nodes": [lambda its: in_project(its) | {"names": [its.entity]}, lambda its: {"names": [its.other_entity]}],
    "read_graph": [in_project, lambda its: {"project": its.archived_project}, lambda its: {}],
    "delete_entities": [lambda its: in_project(its) | {"names": [its.entity]}],
    "delete_observations": [
        lambda its: in_project(its) | {"deletions": [{"entity_name": its.entity, "observations": ["plain"]}]},
    ],
    "delete_relations": [lambda its: in_project(its) | {"relations": [its.relation]}],
    # portals
    "portal_write": [lambda its: in_portal(its, table=its.table, data=[{"id": 1, "said": "plain"}])],
    "portal_query": [
        lambda its: in_portal(its, sql=f"SELECT * FROM {its.table}"),
        lambda its: in_portal(its, sql="SELECT name FROM system.tables"),
        lambda its: {"portalUri": f"mem://{its.code}/mine", "sql": f"SELECT * FROM `{its.code}`.{its.table}"},
    ],
    "portal_delete": [
        lambda its: in_portal(its, table=its.table, where={"id": 2}),
        lambda its: in_portal(its, table=f"{its.table}_2", confirm=True),
    ],
    "portal_import": [
        lambda its: in_portal(its, source=its.file, format="csv"),
        lambda its: in_portal(its, source=its.absolute("imports"), format="csv"),
        lambda its: in_portal(its, source=f"../../{its.user}/imports/{its.file}", format="csv"),
    ],
    "portal_export": [
        lambda its: in_portal(its, destination=its.file, format="csv", table=its.table),
        lambda its: in_portal(its, destination=its.absolute("exports"), format="csv", table=its.table),
        lambda its: in_portal(its, destination=f"../../{its.user}/exports/{its.file}", format="csv", table=its.table),
    ],
    "portal_view": [in_portal, lambda its: {"portalUri": f"{its.portal}/{its.table}"}],
}
"""A stranger's calls of each tool, with another user's identifiers. Where lists are ordered by seconds, no call
creates two items of a kind: their order would be chance."""

_ALL_ADDRESSES: dict[str, Sequence[Callable[[Names], str]]] = {
    "memory://vault{?offset,limit}": [lambda its: "memory://vault", lambda its: "memory://vault?offset=0&limit=1000"],
    "memory://vault/{key}": [lambda its: f"memory://vault/{its.code}%20key"],
    "memory://session/{session_id}": [
        lambda its: f"memory://session/{its.session}",
        lambda its: f"memory://session/{its.connection_session}",
    ],
    "memory://namespace/{ns}": [lambda its: f"memory://namespace/{its.namespace}"],
    "memory://note/{id}": [
        lambda its: f"memory://note/{its.note}",
        lambda its: f"memory://note/{its.archived_note}",
    ],
    "memory://tag/{tag}": [lambda its: f"memory://tag/{its.tag}", lambda its: "memory://tag/archived"],
    "mem://{namespace}/{portal}": [lambda its: its.portal],
    "mem://{namespace}/{portal}/{table}{?since,until,limit,offset,order}": [
        lambda its: f"{its.portal}/{its.table}",
        lambda its: f"{its.portal}/{its.table}?limit=1&order=-id",
    ],
}
"""What a stranger reads of each resource template."""

_LEFT_OUT = [family for name, family in FAMILIES.items() if name not in SERVED]
CALLS = {name: calls for name, calls in _ALL_CALLS.items() if not any(name in one.tools for one in _LEFT_OUT)}
ADDRESSES = {
    template: addresses
    for template, addresses in _ALL_ADDRESSES.items()
    if not template.startswith(tuple(prefix for one in _LEFT_OUT for prefix in one.uri_prefixes))
}


# Who is there


def made(data_dir: Path, *arguments: str) -> dict[str, Any]:
    """What a verb of the command line prints, without a process for it."""
    done = CliRunner().invoke(cli, [*arguments, "--data-dir", str(data_dir), "--json"])
    assert done.exit_code == 0, done.output
    return cast(dict[str, Any], json.loads(done.stdout))


def key_of(server: Http, user: str, *more: str) -> Http:
    return replace(server, key=made(server.data_dir, "keys", "create", "--name", "test", "--user", user, *more)["key"])


@dataclass
class Visitor:
    """A user with one key, in one protocol version."""

    http: Http
    user: str
    era: str
    since: datetime = field(default_factory=lambda: datetime.now(UTC).replace(microsecond=0))
    connection: str | None = None
    namespace: str = ""  # that its key is confined to

    @classmethod
    def new(cls, server: Http, era: str) -> "Visitor":
        name = f"stranger-{uuid4().hex[:8]}"
        since = datetime.now(UTC).replace(microsecond=0)
        user = made(server.data_dir, "users", "add", name)["id"]
        visitor = cls(key_of(server, name), user, era, since)
        if era == "legacy":
            visitor.connection = visitor.http.handshake()
        return visitor

    def ask(self, method: str, params: Arguments, session: str | None = None) -> str:
        """Status, type and body, as they come over the wire."""
        meta = {SESSION_META: session} if session else {}
        if self.connection is None:
            headers = self.http.headers(**self.http.modern_headers(method, params))
            params = params | {"_meta": modern_meta(**meta)}
        else:
            headers = self.http.headers(**{"mcp-session-id": self.connection})
            params = params | ({"_meta": meta} if meta else {})
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        answer = self.http.client.post("/mcp", json=message, headers=headers)
        return f"{answer.status_code} {answer.headers.get('content-type')}\n{answer.text}"

    def result(self, method: str, params: Arguments | None = None) -> dict[str, Any]:
        """Of something that must succeed."""
        output = self.ask(method, params or {}).partition("\n")[2]
        answers = [json.loads(line.removeprefix("data: ")) for line in output.splitlines() if '"jsonrpc"' in line]
        found = next(answer for answer in answers if answer.get("id") == 1)
        assert "result" in found, found
        return cast(dict[str, Any], found["result"])


@dataclass(frozen=True)
class House:
    """A server on which Ann keeps something in every family, and one that never met her."""

    server: Http
    ann: Http
    names: Names
    listed: list[str]  # what Ann's resources/list shows
    elsewhere: Http


def call(http: Http, tool: str, session: str | None = None, **arguments: Any) -> dict[str, Any]:
    return http.modern_call(tool, {SESSION_META: session} if session else None, **arguments)


def fill(ann: Http, user: str) -> Names:
    """Keep something in every family, each name with Ann's word and each text with the secret in it."""
    its = Names(ANNS, "", "", "", user, ann.handshake(), ann.data_dir)
    call(ann, "commit_memory", scope="vault", key=its.key, content=f"{SECRET} {ANNS}", tags=[its.tag])
    call(ann, "commit_memory", its.session, scope="session", key=its.key, content=f"{SECRET} {ANNS}", tags=[its.tag])
    own: Arguments = {"namespace": its.namespace, "tags": [its.tag]}
    linked = call(ann, "memory_create", content=f"{SECRET} {ANNS}", title="linked", **own)["id"]
    archived = call(ann, "memory_create", content=f"{SECRET} {ANNS}", title="archived", **own)["id"]
    note = call(ann, "memory_create", content=f"{SECRET} [[linked]]", title=its.title, **own)["id"]
    call(ann, "memory_update", id=note, content=f"{SECRET} [[linked]] again {ANNS}")
    call(ann, "memory_link", source_id=note, target_id=linked)
    call(ann, "memory_delete", id=archived)
    call(ann, "create_project", name=its.archived_project, description=SECRET)
    call(ann, "archive_project", name=its.archived_project)
    call(ann, "create_project", its.session, name=its.project, description=SECRET)
    for name in (its.entity, its.other_entity):
        entity = {"name": name, "entity_type": SECRET, "observations": [SECRET, "plain"]}
        call(ann, "create_entities", project=its.project, entities=[entity])
    call(ann, "create_relations", project=its.project, relations=[its.relation])
    if "stores" in SERVED:
        fill_stores(ann, its)
    if "portals" in SERVED:
        fill_portals(ann, its)
    return replace(its, note=note, linked_note=linked, archived_note=archived)


def fill_stores(ann: Http, its: Names) -> None:
    call(ann, "add_memory", store=its.store, path=its.path, content=f"{SECRET} {ANNS}", tags=[its.tag])
    call(ann, "add_memory", store=its.store, path=its.expired_path, content=SECRET, expires_at=PAST)


def fill_portals(ann: Http, its: Names) -> None:
    for table in (its.table, f"{its.table}_2"):
        call(ann, "portal_write", portalUri=its.portal, table=table, data=[{"id": 1, "said": SECRET}])
    imports = ann.data_dir / "users" / its.user / "imports"
    imports.mkdir(exist_ok=True)
    (imports / its.file).write_text(f"id,said\n2,{SECRET}\n")
    call(ann, "portal_export", portalUri=its.portal, destination=its.file, format="csv", table=its.table)


def everything_listed(who: Visitor) -> list[str]:
    """The addresses in resources/list, over all pages."""
    found: list[str] = []
    cursor: Arguments = {}
    while True:
        page = who.result("resources/list", cursor)
        found += [resource["uri"] for resource in page["resources"]]
        if not page.get("nextCursor"):
            return found
        cursor = {"cursor": page["nextCursor"]}


@contextmanager
def running(data_dir: Path, postgres: str | None) -> Iterator[Http]:
    """A server of every family that this engine has, in a database of its own."""
    with ExitStack() as stack:
        if postgres:  # in a file, for verbs of the command line, too
            url = stack.enter_context(new_database(postgres))
            chosen = {"database_url": url, "families": ",".join(SERVED), "shared_folder": data_dir / "shared"}
            (data_dir / "config.toml").write_text("".join(f"{name} = '{value}'\n" for name, value in chosen.items()))
        yield stack.enter_context(http_server(data_dir, "--embedder", "none", "--portal-joins"))


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[House]:
    postgres = str(request.getfixturevalue("postgres_server")) if IN_POSTGRES else None
    with (
        running(tmp_path_factory.mktemp("house"), postgres) as server,
        running(tmp_path_factory.mktemp("elsewhere"), postgres) as elsewhere,
    ):
        user = made(server.data_dir, "users", "add", "ann")["id"]
        ann = key_of(server, "ann")
        names = fill(ann, user)
        converse(names, tmp_path_factory.mktemp("hooks"))
        yield House(server, ann, names, everything_listed(Visitor(ann, user, "2026-07-28")), elsewhere)


def converse(its: Names, folder: Path) -> None:
    """A hook keeps a conversation of Ann's, and gives her its first message."""
    at = datetime.now(UTC).isoformat()
    message = {"type": "user", "uuid": "1", "timestamp": at, "message": {"content": f"{SECRET} {its.code} hook"}}
    (folder / its.project).mkdir()
    transcript = folder / "t.jsonl"
    transcript.write_text(json.dumps(message) + "\n")
    settings = load({"data_dir": its.data_dir, "embedder": "none"}, environ={}).settings
    with open_app(settings, serving=False) as app:
        caller = Caller(its.user, ALL_SCOPES, frozenset(app.families))
        named = {"session_id": its.code, "cwd": str(folder / its.project), "transcript_path": str(transcript)}
        for event, more in (("SessionEnd", {}), ("SessionStart", {"source": "resume"})):
            answered = app.conversations.answer(
                caller, new_session(caller), hook_calls.parse("hooks", event, named | more)
            )
            assert answered.did != "nothing", answered.why


# The same bytes


@dataclass(frozen=True)
class Probe:
    what: str
    method: str
    params: Arguments
    session: str | None = None


def tools_of(who: Visitor) -> list[dict[str, Any]]:
    return cast(list[dict[str, Any]], who.result("tools/list")["tools"])


ORDER = [Scope.READ, Scope.DELETE, Scope.LINK, Scope.WRITE]


def tool_calls(tools: Sequence[Mapping[str, Any]], its: Names) -> Iterator[Probe]:
    """Reading and deleting before writing, and what changes something before what makes it: families list those tools
    first that make something. So everything is asked for first while the stranger has nothing of the sort."""
    for name in (tool["name"] for scope in ORDER for tool in reversed(tools) if tool["_meta"]["scope"] == scope):
        for arguments in CALLS[name]:
            yield Probe(name, "tools/call", {"name": name, "arguments": arguments(its)})


def variables(template: str) -> list[str]:
    return [name for group in re.findall(r"\{\??([^}]+)\}", template) for name in group.split(",")]


def addresses(templates: Iterable[str], listed: Sequence[str], its: Names) -> list[str]:
    """All that Ann is shown, and whatever else has an address."""
    return [*listed, *(address(its) for template in templates for address in ADDRESSES[template])]


def readings(templates: Sequence[str], listed: Sequence[str], its: Names, era: str) -> Iterator[Probe]:
    for uri in addresses(templates, listed, its):
        yield Probe(f"read {uri}", "resources/read", {"uri": uri})
        if era == "legacy":
            yield Probe(f"watch {uri}", "resources/subscribe", {"uri": uri})
            yield Probe(f"unwatch {uri}", "resources/unsubscribe", {"uri": uri})


def completions(templates: Sequence[str], prompts: Sequence[Mapping[str, Any]], its: Names) -> Iterator[Probe]:
    refs: list[tuple[Arguments, str]] = [
        ({"type": "ref/resource", "uri": template}, name) for template in templates for name in variables(template)
    ]
    refs += [
        ({"type": "ref/prompt", "name": prompt["name"]}, argument["name"])
        for prompt in prompts
        for argument in prompt["arguments"]
    ]
    for ref, name in refs:
        for value in ("", its.code[:3], its.note[:6], its.connection_session[:6]):
            params = {"ref": ref, "argument": {"name": name, "value": value}}
            yield Probe(f"complete {name} of {ref} from {value!r}", "completion/complete", params)


def prompt_readings(prompts: Sequence[Mapping[str, Any]], its: Names) -> Iterator[Probe]:
    for prompt in prompts:
        given = {argument["name"]: its.note for argument in prompt["arguments"]}
        yield Probe(f"prompt {prompt['name']}", "prompts/get", {"name": prompt["name"], "arguments": given})


def questions(who: Visitor, listed: Sequence[str], its: Names) -> list[Probe]:
    """Every request that this server takes: by a user who has no data, then in a session called as one of Ann's,
    with namesakes of what she has, and once more what can be read."""
    tools, prompts = tools_of(who), who.result("prompts/list")["prompts"]
    templates = [one["uriTemplate"] for one in who.result("resources/templates/list")["resourceTemplates"]]
    reading = [tool for tool in tools if tool["annotations"]["readOnlyHint"]]
    looking = [
        *(Probe(method, method, {}) for method in ("resources/list", "prompts/list", "tools/list")),
        *readings(templates, listed, its, who.era),
        *completions(templates, prompts, its),
        *prompt_readings(prompts, its),
    ]
    first = [*looking, *tool_calls(tools, its)]
    again = [*tool_calls(tools, its), *looking, *tool_calls(reading, its)]
    return [*first, *(replace(probe, session=its.session) for probe in again)]


TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|\+00:00)")
ID = re.compile(r"\b(?:[0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\b")
ELAPSED = re.compile(r'(\\?"elapsedMs\\?": ?)[\d.]+')
WRITTEN_LIST = re.compile(r"\[\{([^][]*<now>[^][]*)\}\]")
SUGGESTION = re.compile(r""" Did you mean [^?]*\?|, ?\\*"nearest\\*": ?\[[^]]*\]""")


def comparable(answer: str, who: Visitor, its: Names, anns: Names) -> str:
    """An answer with the identifiers asked for called by their places, and without what no two answers share: who asks,
    ids and times that their own writes brought about, and how long a query took. Times before they were there, and
    Ann's ids, stay."""
    for number, text in enumerate(its.texts()):
        answer = answer.replace(text, f"<{number}>")
    answer = answer.replace(who.user, "<user>")
    answer = TIME.sub(lambda found: f"<{_kind_of_time(found[0], who.since)}>", answer)
    answer = ID.sub(lambda found: found[0] if found[0] in anns.texts() else "<id>", answer)
    answer = WRITTEN_LIST.sub(_sorted_list, answer)
    return ELAPSED.sub(r"\1<ms>", answer)


def _sorted_list(found: re.Match[str]) -> str:
    """The entries of one second are ordered by their names, those of two by their times: both orders are right."""
    return "[{" + "},{".join(sorted(found[1].split("},{"))) + "}]"


def without_suggestions(answer: str) -> str:
    """Which of a stranger's own names are near depends on how the identifiers are spelled. Other users' names in an
    answer would make it differ from the one elsewhere."""
    return SUGGESTION.sub("", answer)


def _kind_of_time(text: str, since: datetime) -> str:
    """A time that begins an hour is one of a statistic: the next visitor may come in the next hour."""
    if text.endswith(":00:00Z"):
        return "hour"
    return "now" if datetime.fromisoformat(text) >= since else text


def substituted(text: str, its: Names, other: Names) -> str:
    for one, another in zip(its.texts(), other.texts(), strict=True):
        text = text.replace(one, another)
    return text


@pytest.mark.parametrize("era", sample(ERAS, 2))
def test_no_answer_shows_whether_data_is_another_users_or_missing(house: House, era: str) -> None:
    missing = house.names.as_missing()
    anns_elsewhere = replace(house.names, data_dir=house.elsewhere.data_dir)
    answers: list[list[tuple[Probe, str]]] = []
    for server, its in ((house.server, house.names), (house.server, missing), (house.elsewhere, anns_elsewhere)):
        who = Visitor.new(server, era)
        listed = [substituted(uri, house.names, its) for uri in house.listed]
        responses = [
            (probe, who.ask(probe.method, probe.params, probe.session)) for probe in questions(who, listed, its)
        ]
        assert [probe.what for probe, answer in responses if SECRET in answer and SECRET not in str(probe)] == []
        answers.append([(probe, comparable(answer, who, its, house.names)) for probe, answer in responses])

    with_anns, with_missing, without_ann = answers
    for (probe, answer), (_, of_missing), (_, elsewhere) in zip(with_anns, with_missing, without_ann, strict=True):
        assert without_suggestions(answer) == without_suggestions(of_missing), probe
        assert answer == elsewhere, probe


def test_strangers_call_every_tool_and_template(house: House) -> None:
    ann = Visitor(house.ann, house.names.user, "2026-07-28")
    tools = {tool["name"] for tool in tools_of(ann)}
    templates = {one["uriTemplate"] for one in ann.result("resources/templates/list")["resourceTemplates"]}

    assert tools - set(CALLS) == set(), "New tools: say in CALLS what a stranger asks of them, with Ann's identifiers."
    assert set(CALLS) - tools == set(), "These tools are gone: take them out of CALLS."
    assert templates - set(ADDRESSES) == set(), "New resource templates: fill them in in ADDRESSES."
    assert set(ADDRESSES) - templates == set(), "These resource templates are gone: take them out of ADDRESSES."


def test_the_owner_gets_answers(house: House) -> None:
    """Otherwise the other tests could pass because nothing is stored."""
    ann = Visitor(house.ann, house.names.user, "2026-07-28")
    shown = [uri for uri in house.listed if ANNS in uri or house.names.note in uri]
    assert len(shown) >= (4 if "portals" in SERVED else 3)
    reading = {tool["name"] for tool in tools_of(ann) if tool["annotations"]["readOnlyHint"]}
    for name in sorted(reading - {"portal_import", "portal_export", "switch_project"}):
        responses = [
            ann.ask("tools/call", {"name": name, "arguments": arguments(house.names)}, house.names.session)
            for arguments in CALLS[name]
        ]
        assert any(ANNS in answer or SECRET in answer for answer in responses), (name, responses)


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_another_users_connection_is_answered_like_a_missing_one(house: House, method: str) -> None:
    stranger = Visitor.new(house.server, "2026-07-28").http
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}

    def answer(connection: str) -> tuple[int, str]:
        headers = stranger.headers(**{"mcp-session-id": connection})
        output = stranger.client.request(method, "/mcp", json=message if method == "POST" else None, headers=headers)
        return output.status_code, output.text.replace(connection, "<connection>")

    anns = house.ann.handshake()
    assert answer(anns) == answer(uuid4().hex)
    assert answer(anns)[0] == 404
    assert house.ann.legacy(anns, "tools/list")["result"]["tools"]


def test_another_users_sse_stream_takes_no_messages(house: House) -> None:
    stranger = Visitor.new(house.server, "2026-07-28").http
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}
    with house.ann.client.stream("GET", "/mcp/sse", headers=house.ann.headers()) as stream:
        _, address = next(events_of(stream))
        before, _, connection = address.rpartition("=")
        answers = [
            stranger.client.post(f"{before}={one}", json=message, headers=stranger.headers())
            for one in (connection, uuid4().hex)
        ]
    assert answers[0].status_code == 404
    assert answers[0].text == answers[1].text


# Nothing is heard


News = tuple[str, str | None]  # a notification's method, and the address it is about


def listening(http: Http, uris: Sequence[str]) -> AbstractContextManager[httpx.Response]:
    """A stream of the protocol without a handshake."""
    method = "subscriptions/listen"
    wanted = {"resourcesListChanged": True, "resourceSubscriptions": list(uris)}
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"notifications": wanted, "_meta": modern_meta()}}
    return http.client.stream("POST", "/mcp", json=message, headers=http.headers(**http.modern_headers(method, {})))


@contextmanager
def ear(who: Visitor, uris: Sequence[str]) -> Iterator[Iterator[News]]:
    """The notifications of a client that watches these addresses and the list of resources."""
    if who.connection is None:
        stream = listening(who.http, uris)
    else:
        for uri in uris:
            who.result("resources/subscribe", {"uri": uri})
        stream = who.http.client.stream("GET", "/mcp", headers=who.http.headers(**{"mcp-session-id": who.connection}))
    with stream as answer:
        responses = (json.loads(event) for _, event in events_of(answer) if event)
        if who.connection is None:
            next(responses)  # the acknowledgement
        yield ((message["method"], message.get("params", {}).get("uri")) for message in responses)


def test_listening_for_another_users_data_is_answered_like_for_missing_data(house: House) -> None:
    missing = house.names.as_missing()
    stranger = Visitor.new(house.server, "2026-07-28")

    def answer(uri: str, its: Names) -> str:
        with listening(stranger.http, [uri]) as stream:
            return f"{stream.status_code} {comparable(next(stream.iter_text()), stranger, its, house.names)}"

    for uri in addresses(ADDRESSES, house.listed, house.names):
        assert answer(uri, house.names) == answer(substituted(uri, house.names, missing), missing)


def write_everywhere(ann: Http, its: Names) -> None:
    """Change what is there and add something new, in every family."""
    call(ann, "commit_memory", scope="vault", key=uuid4().hex, content=SECRET)
    call(ann, "memory_update", id=its.note, content=f"{SECRET} {uuid4()}")
    call(ann, "memory_create", content=SECRET, namespace=its.namespace, tags=[its.tag])
    call(ann, "create_entities", project=its.project, entities=[{"name": uuid4().hex, "entity_type": SECRET}])
    if "stores" in SERVED:
        call(ann, "add_memory", store=its.store, path=f"{its.category}/{uuid4().hex}", content=SECRET)
    if "portals" in SERVED:
        call(ann, "portal_write", portalUri=its.portal, table=f"t_{uuid4().hex}", data=[{"id": 3, "said": SECRET}])
    call(ann, "commit_memory", scope="vault", key=its.key, content=SECRET)


@pytest.mark.parametrize("era", sample(ERAS, 2))
def test_a_stranger_gets_no_notifications_of_other_users_writes(house: House, era: str) -> None:
    stranger = Visitor.new(house.server, era)
    ann = Visitor(house.ann, house.names.user, era, connection=house.ann.handshake() if era == "legacy" else None)
    own = "memory://vault/mine"
    watched = [uri for uri in house.listed if not uri.startswith("memory://session/")]
    with ear(stranger, [*watched, own]) as strangers_ear, ear(ann, watched) as anns_ear:
        call(stranger.http, "commit_memory", scope="vault", key="mine", content="new")
        assert ("notifications/resources/list_changed", None) in strangers_ear
        write_everywhere(house.ann, house.names)
        last = f"memory://vault/{quote(house.names.key)}"  # of what she writes
        assert ("notifications/resources/updated", last) in anns_ear
        call(stranger.http, "commit_memory", scope="vault", key="mine", content="no longer")
        heard = [next(strangers_ear), next(strangers_ear)]
    assert heard == [("notifications/resources/updated", uri) for uri in ("memory://vault", own)]


# Over REST


def at(route: str, **query: str) -> tuple[str, Arguments | None]:
    return f"{route}?{httpx.QueryParams(query)}" if query else route, None


REST: dict[str, Sequence[Callable[[Names], tuple[str, Arguments | None]]]] = {
    "POST /api/sign-in": [],  # tests/server/test_rest.py
    "POST /api/sign-out": [],
    "GET /api/events": [],
    "GET /api/me": [lambda its: at("/api/me")],
    "GET /api/mcp/keys": [lambda its: at("/api/mcp/keys")],
    "POST /api/mcp/keys": [],  # makes one of one's own
    "DELETE /api/mcp/keys/{key_id}": [lambda its: at(f"/api/mcp/keys/{its.code}")],
    "GET /api/mcp/sessions": [lambda its: at("/api/mcp/sessions")],
    "DELETE /api/mcp/sessions/{session_id}": [lambda its: at(f"/api/mcp/sessions/{its.connection_session}")],
    "GET /api/mcp/memory/embed-stats": [lambda its: at("/api/mcp/memory/embed-stats")],
    "POST /api/mcp/memory/reindex": [lambda its: at("/api/mcp/memory/reindex")],
    "GET /api/mcp/memory/analytics": [
        lambda its: at("/api/mcp/memory/analytics"),
        lambda its: at("/api/mcp/memory/analytics", days="400", by="day"),
    ],
    "GET /api/mcp/audit": [lambda its: at("/api/mcp/audit", limit="1000")],
    "GET /api/notes": [
        lambda its: at("/api/notes"),
        lambda its: at("/api/notes", archived="true"),
        lambda its: at("/api/notes", q=its.code),
        lambda its: at("/api/notes", archived="true", q=its.code),
        lambda its: at("/api/notes", namespace=its.namespace, tag=its.tag),
        lambda its: at("/api/notes", after="9999-01-01T00:00:00.000Z,99"),
    ],
    "GET /api/notes/titles": [
        lambda its: at("/api/notes/titles", q=its.code),
    ],
    "GET /api/notes/facets": [
        lambda its: at("/api/notes/facets"),
        lambda its: at("/api/notes/facets", archived="true", q=its.code),
        lambda its: at("/api/notes/facets", namespace=its.namespace, tag=its.tag),
    ],
    "GET /api/notes/attention": [lambda its: at("/api/notes/attention")],
    "GET /api/notes/pairs": [
        lambda its: at("/api/notes/pairs", limit="100"),
        lambda its: at("/api/notes/pairs", after="9999-01-01T00:00:00.000Z,99"),
    ],
    "POST /api/notes/change": [
        lambda its: ("/api/notes/change", {"refs": [f"memory://note/{its.note}"], "add_tags": ["mine"]}),
    ],
    "POST /api/notes/revert": [
        lambda its: ("/api/notes/revert", {"notes": [{"ref": f"memory://note/{its.note}", "version": 1}]}),
    ],
    "GET /api/users": [lambda its: at("/api/users")],
    "POST /api/users": [lambda its: ("/api/users", {"name": its.code})],
    "POST /api/users/{user}/plan": [lambda its: (f"/api/users/{its.code}/plan", {"plan": "pro"})],
    "POST /api/users/{user}/password": [lambda its: (f"/api/users/{its.code}/password", {"password": "x" * 12})],
    "POST /api/users/{user}/link": [lambda its: (f"/api/users/{its.code}/link", None)],
    "DELETE /api/users/{user}": [lambda its: at(f"/api/users/{its.code}")],
    "POST /api/uploads": [],  # of one's own; tests/server/test_imports.py
    "GET /api/imports": [lambda its: at("/api/imports")],
    "POST /api/imports": [],  # in the background; the same
    "POST /api/imports/stop": [lambda its: ("/api/imports/stop", None)],
    "POST /api/imports/{import_id}/undo": [lambda its: (f"/api/imports/{its.code}/undo", None)],
    "GET /api/notes/graph": [
        lambda its: at("/api/notes/graph"),
        lambda its: at("/api/notes/graph", around=its.note, depth="3"),
    ],
    "GET /api/recent": [lambda its: at("/api/recent", limit="100"), lambda its: at("/api/recent", family="graph")],
    "GET /api/conversations": [
        lambda its: at("/api/conversations"),
        lambda its: at("/api/conversations", project=its.project, client=its.code),
    ],
    "GET /api/conversations/messages": [
        lambda its: at("/api/conversations/messages", ref=f"conversation:{its.conversation}")
    ],
    "GET /api/given": [
        lambda its: at("/api/given"),
        lambda its: at("/api/given", ref=f"conversation:{its.conversation}"),
    ],
    "GET /api/hooks/calls": [lambda its: at("/api/hooks/calls")],
    "GET /api/overview": [lambda its: at("/api/overview")],
    "GET /api/open": [
        lambda its: at("/api/open", ref=f"memory://note/{its.note}"),
        lambda its: at("/api/open", ref=f"stores:{its.store}/{its.path}"),
        lambda its: at("/api/open", ref=f"graph:{its.project}/{its.entity}"),
        lambda its: at("/api/open", ref=f"{its.portal}/{its.table}"),
    ],
    "GET /api/graph/{project}": [
        lambda its: at(f"/api/graph/{its.project}"),
        lambda its: at(f"/api/graph/{its.project}", around=its.code),
    ],
    "GET /api/stores": [lambda its: at("/api/stores")],
    "GET /api/stores/{store}/file": [lambda its: at(f"/api/stores/{its.store}/file", path=its.path)],
    "POST /api/stores/{store}/file": [
        lambda its: (f"/api/stores/{its.store}/file", {"path": its.path, "data": "bWluZQ==", "changed_ns": "1"})
    ],
    "POST /api/stores/{store}/edit": [
        lambda its: (f"/api/stores/{its.store}/edit", {"path": its.path, "content": "mine", "was": "theirs"})
    ],
    "GET /api/memories/writes": [
        lambda its: at("/api/memories/writes", ref=f"memory://note/{its.note}"),
        lambda its: at("/api/memories/writes", ref=f"graph:{its.project}/{its.entity}"),
        lambda its: at("/api/memories/writes", ref=f"memory://vault/{its.key}"),
    ],
    "GET /api/journal": [lambda its: at("/api/journal"), lambda its: at("/api/journal", client=its.code)],
    "GET /api/journal/groups": [lambda its: at("/api/journal/groups")],
    "POST /api/journal/preview": [
        lambda its: ("/api/journal/preview", {"ids": [f"graph:{its.project}:1"]}),
        lambda its: ("/api/journal/preview", {"family": "notes"}),
    ],
    "POST /api/journal/undo": [lambda its: ("/api/journal/undo", {"ids": [f"graph:{its.project}:1"]})],
    "POST /api/memories/edit": [
        lambda its: ("/api/memories/edit", {"ref": f"graph:{its.project}/{its.entity}", "text": "- mine", "was": "x"})
    ],
    "POST /api/memories/delete": [
        lambda its: ("/api/memories/delete", {"ref": f"memory://note/{its.note}"}),
        lambda its: ("/api/memories/delete", {"ref": f"graph:{its.project}/{its.entity}"}),
        lambda its: ("/api/memories/delete", {"ref": f"conversation:{its.conversation}"}),
        lambda its: ("/api/memories/delete", {"ref": "conversations:"}),
    ],
    "POST /api/memories/restore": [lambda its: ("/api/memories/restore", {"ref": f"graph:{its.project}/{its.entity}"})],
    "POST /api/memories/delete-many": [
        lambda its: ("/api/memories/delete-many", {"refs": [f"memory://note/{its.note}", f"graph:{its.project}"]})
    ],
    "POST /api/memories/restore-many": [
        lambda its: ("/api/memories/restore-many", {"refs": [f"memory://note/{its.note}"]})
    ],
    "GET /api/portals": [lambda its: at("/api/portals")],
    "POST /api/tools/{name}": [  # all of them are asked above, by a key
        lambda its: ("/api/tools/memory_get", {"id": its.note}),
        lambda its: ("/api/tools/recall_memories", {"query": its.code}),
    ],
    "GET /api/mcp/sync/status": [lambda its: at("/api/mcp/sync/status")],
    "POST /api/mcp/sync/link": [lambda its: ("/api/mcp/sync/link", {"url": "http://127.0.0.1:9", "key": its.code})],
    "POST /api/mcp/sync/enable": [lambda its: ("/api/mcp/sync/enable", {"namespace": its.namespace})],
    "POST /api/mcp/sync/disable": [lambda its: ("/api/mcp/sync/disable", {"namespace": its.namespace})],
    "POST /api/mcp/sync/resync": [lambda its: ("/api/mcp/sync/resync", {"namespace": its.namespace})],
    "POST /api/mcp/sync/clear-state": [lambda its: ("/api/mcp/sync/clear-state", {"namespace": its.namespace})],
    "POST /api/mcp/sync/now": [lambda its: at("/api/mcp/sync/now")],
    "POST /api/mcp/sync/unlink": [lambda its: at("/api/mcp/sync/unlink")],
    "POST /api/export": [lambda its: at("/api/export")],
    "POST /api/backup": [lambda its: at("/api/backup")],
}


def person(server: Http) -> tuple[Visitor, httpx.Client]:
    """A stranger who is signed in, and has nothing."""
    name = f"stranger-{uuid4().hex[:8]}"
    since = datetime.now(UTC).replace(microsecond=0)  # before the user is made, whose times are in answers
    user = made(server.data_dir, "users", "add", name)["id"]
    browser = httpx.Client(base_url=server.url, timeout=60)
    token = made(server.data_dir, "users", "link", name)["link"].partition("?")[2]
    assert browser.get(f"/sign-in?{token}").status_code == 303
    return Visitor(server, user, "2026-07-28", since=since), browser


def whole(answer: httpx.Response) -> str:
    """The answer; of a zip what is in it."""
    if answer.headers["content-type"] != "application/zip":
        return f"{answer.status_code} {answer.text}"
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        return "\n".join(f"{name}: {archive.read(name).decode()}" for name in archive.namelist())


def test_over_rest_another_users_data_is_answered_like_missing_data(house: House) -> None:
    responses: list[list[str]] = []
    for its in (house.names, house.names.as_missing()):
        who, browser = person(house.server)
        with closing(browser):
            answers = []
            for operation, probes in REST.items():
                for ask in probes:
                    path, body = ask(its)
                    answer = whole(browser.request(operation.split()[0], path, json=body))
                    assert SECRET not in answer, path
                    answers.append(f"{operation}: {comparable(answer, who, its, house.names)}")
            responses.append([re.sub(r"stranger-[0-9a-f]{8}|(?<=\"node\":\")\w+", "<own>", one) for one in answers])
    assert responses[0] == responses[1]


def test_strangers_call_every_rest_route(house: House) -> None:
    document = house.server.client.get("/api/openapi.json").json()
    there = {f"{method.upper()} {path}" for path, methods in document["paths"].items() for method in methods}
    assert there == set(REST), "Say in REST what a stranger asks of each route, with Ann's identifiers."


# Narrow keys


@pytest.fixture(scope="module")
def offered(house: House) -> list[dict[str, Any]]:
    """Every tool there is."""
    return tools_of(Visitor(house.ann, house.names.user, "2026-07-28"))


PREFIXES = {name: family.uri_prefixes for name, family in FAMILIES.items()}


def names_of(key: Http) -> set[str]:
    return {tool["name"] for tool in key.modern("tools/list")["result"]["tools"]}


def bare_call(key: Http, tool: str) -> dict[str, Any]:
    """Without arguments: no tool that changes anything does without them."""
    return key.modern("tools/call", {"name": tool, "arguments": {}})


def word_of(answer: Mapping[str, Any]) -> str | None:
    """The word of a refusal, whichever way the family encodes it."""
    if "error" in answer:
        return cast(str, answer["error"]["data"]["error"])
    return cast(str | None, answer["result"]["structuredContent"].get("error"))


@pytest.mark.parametrize("family", SERVED)
def test_a_key_of_one_family_finds_nothing_of_the_others(
    house: House, offered: list[dict[str, Any]], family: str
) -> None:
    key = key_of(house.server, "ann", "--families", family)
    own = {tool["name"] for tool in offered if tool["_meta"]["family"] == family}

    assert names_of(key) == own
    made_up = bare_call(key, "made_up")
    assert made_up["error"]["code"] == -32602
    spec_names = {one.spec_name: one.family for each in FAMILIES.values() for one in each.tools.values()}
    foreign = {name for name, of in spec_names.items() if name and of != family}
    for name in sorted({tool["name"] for tool in offered} - own | foreign):
        assert json.dumps(bare_call(key, name)).replace(name, "made_up") == json.dumps(made_up), name
    for name in sorted(own):
        answer = bare_call(key, name)
        assert "error" not in answer or "Unknown tool" not in answer["error"]["message"], name


@pytest.mark.parametrize("family", SERVED)
def test_a_key_of_one_family_reads_nothing_of_the_others(house: House, family: str) -> None:
    key = key_of(house.server, "ann", "--families", family)
    narrow, its = Visitor(key, house.names.user, "2026-07-28"), house.names
    own = tuple(PREFIXES[family])

    assert [uri for uri in everything_listed(narrow) if not uri.startswith(own)] == []
    templates = [one["uriTemplate"] for one in narrow.result("resources/templates/list")["resourceTemplates"]]
    assert templates == [template for template in ADDRESSES if template.startswith(own)]
    missing = narrow.ask("resources/read", {"uri": "memory://made-up/x"})
    for template in ADDRESSES:
        for address in ADDRESSES[template]:
            answer = narrow.ask("resources/read", {"uri": address(its)})
            is_unknown = answer.replace(address(its), "memory://made-up/x") == missing
            assert is_unknown == (template not in templates), address(its)
        for name in variables(template):
            ref = {"type": "ref/resource", "uri": template}
            found = narrow.result("completion/complete", {"ref": ref, "argument": {"name": name, "value": ""}})
            assert template in templates or found["completion"]["values"] == []
    prompts = {prompt["name"] for prompt in narrow.result("prompts/list")["prompts"]}
    assert prompts == {prompt.name for prompt in FAMILIES[family].prompts}


@pytest.mark.parametrize("scope", list(Scope))
def test_refusals_name_the_missing_scope(house: House, offered: list[dict[str, Any]], scope: Scope) -> None:
    key = key_of(house.server, "ann", "--scopes", scope.value)

    assert names_of(key) == {tool["name"] for tool in offered if tool["_meta"]["scope"] == scope}
    for tool in offered:
        answer = bare_call(key, tool["name"])
        if tool["_meta"]["scope"] == scope:
            assert word_of(answer) != "scope_required", tool["name"]
        else:
            assert word_of(answer) == "scope_required", tool["name"]
            assert tool["_meta"]["scope"] in json.dumps(answer)


@pytest.mark.parametrize("scope", [scope for scope in Scope if scope is not Scope.READ])
def test_a_key_that_may_not_read_is_shown_nothing(house: House, scope: Scope) -> None:
    key = key_of(house.server, "ann", "--scopes", scope.value)
    narrow, its = Visitor(key, house.names.user, "2026-07-28"), house.names

    assert everything_listed(narrow) == []
    assert narrow.result("resources/templates/list")["resourceTemplates"] == []
    assert narrow.result("prompts/list")["prompts"] == []
    for template, addresses in ADDRESSES.items():
        for address in addresses:
            assert "scope_required" in narrow.ask("resources/read", {"uri": address(its)})
        for name in variables(template):
            ref = {"type": "ref/resource", "uri": template}
            found = narrow.result("completion/complete", {"ref": ref, "argument": {"name": name, "value": ""}})
            assert found["completion"]["values"] == []
    listen = {"notifications": {"resourcesListChanged": True, "resourceSubscriptions": ["memory://vault"]}}
    assert "scope_required" in narrow.ask("subscriptions/listen", listen)
