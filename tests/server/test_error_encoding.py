"""One table of codes, and words for each kind of reader: what people see names no tool of MCP."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import memory_mcp
from memory_mcp import errors
from memory_mcp.app import App
from memory_mcp.cli import command_line
from memory_mcp.errors import AppError, NotFound, Unusable
from memory_mcp.families.family import Tool
from memory_mcp.server import error_encoding
from memory_mcp.services.access import KeyRefused, NotSignedIn
from tests.server.test_rest import Person, signed_in
from tests.wire import http_server

PACKAGE = Path(memory_mcp.__file__).parent
METHODS = r"(?:tools|resources|prompts|completion|memory)/[a-z]+"
MISSING: dict[str, Any] = {  # values that fit each argument and lead nowhere
    "id": "nope",
    "key": "nope",
    "store": "nope",
    "path": "no/pe",
    "from_path": "no/pe",
    "to_path": "no/where",
    "name": "nope",
    "project": "nope",
    "portalUri": "mem://no/pe",
    "table": "nope",
    "query": "",
    "content": " ",
    "source_id": "nope",
    "target_id": "nope",
    "scope": "session",
    "embedding": [1.0],
    "tags": ["archived"],
    "names": ["nope"],
    "ids": ["nope"],
    "observations": [{"entityName": "nope", "entity_name": "nope", "contents": ["x"], "content": "x"}],
    "relations": [{"from": "nope", "to": "nope", "relation_type": "x"}],
    "entity_names": ["nope"],
    "data": [{"a": 1}],
    "uri": "mem://no/pe?limit=1",
    "sql": "SELECT 1",
    "source": "nope.csv",
    "destination": "nope.csv",
    "format": "csv",
    "older_than": "never",
    "session_id": "",
    "ref": "nope",
}


@pytest.fixture
def tools(app: App) -> dict[str, Tool]:
    return {name: tool for family in app.families.values() for name, tool in family.tools.items()}


@pytest.fixture
def names_mcp(tools: dict[str, Tool]) -> re.Pattern[str]:
    """Finds the name of a tool, of a method of MCP or, in backticks, of an argument."""
    spelled = [*tools, *(tool.spec_name for tool in tools.values() if tool.spec_name)]
    arguments = {field.alias or name for tool in tools.values() for name, field in tool.arguments.model_fields.items()}
    return re.compile(rf"\b(?:{'|'.join(spelled)}|{METHODS})\b|`(?:{'|'.join(arguments)})`")


# The table


def test_every_error_has_its_codes_on_the_wire() -> None:
    def tree(kind: type[AppError]) -> Iterator[type[AppError]]:
        for leaf in kind.__subclasses__():
            yield leaf
            yield from tree(leaf)

    for kind in tree(AppError):
        assert kind.code in error_encoding.WIRE_CODES, kind
    statuses = {KeyRefused: 401, NotSignedIn: 401, NotFound: 404}
    for kind, status in statuses.items():
        assert error_encoding.wire_codes(kind("x", code="expired")).http == status


def test_models_and_people_get_their_own_hints() -> None:
    error = NotFound("No such store.", hint="add_memory makes it.", people_hint="Run `memory-mcp stores add`.")
    assert error_encoding.rpc_error(error).error.message == "No such store. add_memory makes it."
    assert b"No such store. Run `memory-mcp stores add`." in error_encoding.problem(error).body
    assert b"add_memory" not in error_encoding.problem(error).body


def test_only_the_log_and_the_owner_see_which_file_is_damaged(caplog: pytest.LogCaptureFixture) -> None:
    error = Unusable("/srv/memory/notes.db is damaged.")
    for sent in (error_encoding.problem(error).body, error_encoding.refusal(error).body):
        assert b"/srv" not in sent
    assert "/srv" not in error_encoding.rpc_error(error).error.message
    assert caplog.text.count("/srv/memory/notes.db is damaged.") == 3
    assert error.text_for_owner == "/srv/memory/notes.db is damaged."


# What people see


def test_no_message_in_the_code_names_a_tool(names_mcp: re.Pattern[str]) -> None:
    """Of every error that is raised anywhere: only its `hint` may."""
    kinds = {name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, AppError)}
    seen = 0
    for file in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in kinds and node.args:
                seen += 1
                for part in ast.walk(node.args[0]):
                    if isinstance(part, ast.Constant) and isinstance(part.value, str):
                        assert not names_mcp.search(part.value), f"{file}:{node.lineno}"
    assert seen > 300


@pytest.fixture(scope="module")
def me(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Person]:
    with http_server(tmp_path_factory.mktemp("people"), "--embedder", "none") as server:
        yield signed_in(server, server.link)


def test_rest_errors_name_no_tool(me: Person, tools: dict[str, Tool], names_mcp: re.Pattern[str]) -> None:
    refused = {}
    for name, tool in tools.items():
        fields = {field.alias or own: field for own, field in tool.arguments.model_fields.items()}
        fitting = {field: MISSING[field] for field in fields if field in MISSING}
        needed = {field: value for field, value in fitting.items() if fields[field].is_required()}
        for arguments in (needed, fitting, *({**needed, field: value} for field, value in fitting.items())):
            answer = me.ask("POST", f"/api/tools/{name}", json=arguments)
            if answer.status_code >= 400:
                refused[name, answer.json()["detail"]] = answer.json()["error"]
    requests = (
        *(("GET", path) for path in ("/api/open?ref=memory://vault/x", "/api/open?ref=x", "/api/graph/x", "/api/x")),
        *(("GET", path) for path in ("/api/stores/x/file?path=a", "/api/open?ref=mem://a/b", "/api/notes?limit=0")),
        *(
            ("POST", path)
            for path in (
                "/api/mcp/sync/now",
                "/api/tools/x",
                "/api/mcp/keys",
                "/api/stores/x/edit",
                "/api/memories/edit",
            )
        ),
        *(("DELETE", path) for path in ("/api/mcp/keys/x", "/api/mcp/sessions/x")),
    )
    for method, path in requests:
        answer = me.ask(method, path, json={} if method == "POST" else None)
        assert answer.status_code >= 400, path
        refused[path, answer.json()["detail"]] = answer.json()["error"]
    assert {"invalid", "not_found", "store_not_registered", "no_active_project"} <= set(refused.values())
    assert len(refused) > 50
    assert [found for found in refused if names_mcp.search(found[1])] == []


@pytest.mark.parametrize("flags", [(), ("--json",)])
@pytest.mark.parametrize(
    "arguments",
    [
        ("show", "memory://vault/none"),
        ("show", "memory://notes/none"),
        ("show", "stores/none/a"),
        ("show", "mem://no/pe"),
        ("show", "nonsense"),
        ("search", ""),
        ("add", " "),
        ("add", "x", "--family", "stores", "--store", "s", "--path", "../x"),
        ("graph", "export", "none"),
        ("stores", "remove", "none"),
        ("portal", "delete", "mem://no/pe", "--yes"),
        ("keys", "revoke", "none"),
        ("keys", "create", "--name", "x", "--namespace", "a,b"),
        ("sync", "enable", "default"),
        ("users", "remove", "none", "--yes"),
    ],
)
def test_command_line_errors_name_no_tool(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    names_mcp: re.Pattern[str],
    arguments: tuple[str, ...],
    flags: tuple[str, ...],
) -> None:
    with pytest.raises(SystemExit) as caught:
        command_line([*arguments, *flags, "--data-dir", str(tmp_path / "data")])
    assert caught.value.code in (1, 2)
    message = capsys.readouterr().err
    assert message.startswith('{"error": ' if flags else ("memory-mcp: ", "Usage: "))
    assert not names_mcp.search(message)
