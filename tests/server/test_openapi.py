"""The OpenAPI document against a live server: what it promises is what happens."""

import itertools
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest

from memory_mcp.app import open_access
from memory_mcp.caller import LOCAL_USER
from memory_mcp.settings import load
from tests.exhaustive import IS_SOAK, rounds
from tests.wire import Http, http_server

COOKIE = "memory_mcp_sign_in"
NEEDS_A_HUB = "POST /api/mcp/sync/"  # tests/server/test_sync.py has one
NEEDS_A_MEMORY = {  # tests/server/test_lists.py
    *(f"POST /api/memories/{verb}" for verb in ("edit", "delete", "restore")),
    "GET /api/memories/writes",
    "POST /api/journal/undo",
}
NEEDS_A_CONVERSATION = {"GET /api/conversations/messages"}  # tests/server/test_conversations.py
ELSEWHERE = {
    "GET /api/events",  # a stream without end; tests/server/test_rest.py listens to it
    "POST /api/uploads",  # pieces in base64, one after the other; tests/server/test_imports.py
    "POST /api/users/{user}/password",  # would sign this test out; tests/server/test_people.py
    "DELETE /api/users/{user}",  # never of the local user; the same
    "POST /api/mcp/sync/link",  # asks whichever host it is given; tests/server/test_sync.py gives it one
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Http]:
    with http_server(tmp_path_factory.mktemp("openapi"), "--embedder", "none") as running:
        yield running


@pytest.fixture
def api(server: Http) -> Any:
    import schemathesis  # it takes a second, and every worker imports this module

    document = schemathesis.openapi.from_url(f"{server.url}/api/openapi.json")
    found = document.exclude(path=[label.split()[1] for label in ELSEWHERE])
    found.config.generation.update(deterministic=True, no_shrink=True)
    found.config.update(continue_on_failure=True, request_timeout=20)
    return found


def run(api: Any, *, examples: int) -> tuple[set[str], set[str], list[str]]:
    """Every phase with every check: which operations answered and which succeeded at least once, and what is wrong."""
    from schemathesis.engine import Status, events, from_schema

    api.config.generation.update(max_examples=examples)
    answered: set[str] = set()
    succeeded: set[str] = set()
    wrong: list[str] = []
    for event in from_schema(api).execute():
        if isinstance(event, events.ScenarioFinished):
            wrong += [f"{event.label}: {event.status}"] if event.status is Status.ERROR else []
            checks = [check for checks in event.recorder.checks.values() for check in checks]
            wrong += [f"{event.label}: {check.failure_info.failure}" for check in checks if check.failure_info]
            answers = [one.response for one in event.recorder.interactions.values() if one.response is not None]
            answered |= {str(event.label)} if answers else set()
            succeeded |= {str(event.label)} if any(answer.status_code < 300 for answer in answers) else set()
        elif isinstance(event, events.NonFatalError | events.FatalError):
            wrong.append(f"{event}")
    return answered, succeeded, wrong


def sign_in(api: Any, cookies: Iterator[str]) -> None:
    usual = next(cookies)

    @api.auth(refresh_interval=None)
    class SignedIn:
        """Signing out uses a cookie up each time."""

        def get(self, case: Any, context: Any) -> str:
            return next(cookies) if case.path == "/api/sign-out" else usual

        def set(self, case: Any, data: str, context: Any) -> None:
            case.cookies[COOKIE] = data


def test_signed_in_answers_match_the_document(server: Http, api: Any) -> None:
    with open_access(load({"data_dir": server.data_dir}, environ={}).settings) as access:
        sign_ins = access.sign_ins
        host = server.url.removeprefix("http://")
        sign_in(
            api,
            (
                sign_ins.sign_in_by_link(sign_ins.create_link_token(LOCAL_USER), f"test {n}", host)
                for n in itertools.count()
            ),
        )
        _, succeeded, wrong = run(api, examples=rounds(3, soak=6))
    assert wrong == []
    operations = {operation.ok().label for operation in api.get_all_operations()}
    promised = {f"{method.upper()} {path}" for path, methods in api.raw_schema["paths"].items() for method in methods}
    assert operations == promised - ELSEWHERE
    plain = {label for label in operations if "{" not in label and not label.startswith(NEEDS_A_HUB)}
    assert succeeded >= plain - {"POST /api/sign-in", "GET /api/open"} - NEEDS_A_MEMORY - NEEDS_A_CONVERSATION


def test_signed_out_refusals_match_the_document(api: Any) -> None:
    if not IS_SOAK:  # a refusal does not depend on what was sent
        api.config.phases.update(phases=["fuzzing"])
    answered, succeeded, wrong = run(api, examples=1)
    assert (succeeded, wrong) == (set(), [])
    assert answered >= {operation.ok().label for operation in api.get_all_operations()}


def test_the_document_is_openapi_3_1(server: Http, api: Any) -> None:
    document = server.client.get("/api/openapi.json").json()
    assert document["openapi"].startswith("3.1")
    api.validate()
    for shape in document["components"]["schemas"].values():
        jsonschema_rs.meta.validate({"$schema": "https://json-schema.org/draft/2020-12/schema", **shape})
