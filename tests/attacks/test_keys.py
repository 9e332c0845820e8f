"""Guessing a key: no guess works, the answers to all are the same, and the guesser is slowed down."""

import secrets
from collections.abc import Callable, Iterator

import pytest

from tests.exhaustive import IS_SOAK
from tests.wire import Http, http_server

GUESSES = 200 if IS_SOAK else 20


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Http]:
    with http_server(tmp_path_factory.mktemp("keys"), "--embedder", "none") as running:
        yield running


def guesses(key: str) -> Iterator[str]:
    """The right prefix with another secret, the key with one character less, more or changed, and other keys."""
    yield from (key[:-1], key + "a", key.upper(), key.swapcase(), f" {key} x", key[: len(key) // 2])
    while True:
        at = secrets.randbelow(len(key) - 5) + 5
        yield key[:at] + ("a" if key[at] != "a" else "b") + key[at + 1 :]
        yield key[:17] + secrets.token_urlsafe(len(key) - 17)[: len(key) - 17]
        yield "mmcp_" + secrets.token_urlsafe(len(key))[: len(key) - 5]


def test_no_guess_works_and_none_says_how_near_it_was(
    server: Http, record_property: Callable[[str, object], None]
) -> None:
    assert server.key is not None
    answers = set()
    for _, guess in zip(range(GUESSES), guesses(server.key), strict=False):
        answer = server.client.get("/mcp", headers={"Authorization": f"Bearer {guess}"})
        assert answer.status_code in (401, 429), guess
        answers.add((answer.status_code, answer.text if answer.status_code == 401 else ""))
    assert len([status for status, _ in answers if status == 401]) == 1, answers
    assert server.modern("tools/list")["result"]["tools"]
    record_property("attempts", GUESSES)
