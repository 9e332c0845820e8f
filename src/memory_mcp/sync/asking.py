"""A node's hub over HTTP."""

import gzip
import json
import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from memory_mcp.errors import AppError, Conflict, Invalid, RateLimited, Unavailable
from memory_mcp.sync.protocol import FORKED
from memory_mcp.sync.records import Record, as_json, parse

URL = r"^https?://([A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+])(:[0-9]{1,5})?(/[A-Za-z0-9._~/-]*)?$"
SECONDS = 60.0
CONNECT_SECONDS = 10.0
RETRY_SECONDS = 5.0  # when a hub says that it is too often, and not for how long


log = logging.getLogger(__name__)


class Forked(Conflict):
    """The hub last saw this node in another state."""


@dataclass(frozen=True)
class Answer:
    hub_now: str
    ticket: str
    records: list[Record]  # of a push: those the hub knew more about
    refused: dict[str, str]  # by id: why
    cursor: int = 0
    left: int = 0


def checked_url(url: str) -> str:
    """Raises Invalid."""
    if not re.match(URL, url.strip()):
        raise _no_address()
    return url.strip().rstrip("/")


def checked_key(key: str) -> str:
    """Raises Invalid."""
    if not re.fullmatch(r"[!-~]+", key.strip()):
        raise Invalid("This is no key. Give one that `memory-mcp keys create` printed at the hub.", field="key")
    return key.strip()


def is_in_the_open(url: str) -> bool:
    """Whether what is sent there can be read on the way: plain HTTP to another machine."""
    parts = urlsplit(url)
    return parts.scheme == "http" and parts.hostname not in ("localhost", "127.0.0.1", "::1")


class Asking:
    """One hub, asked with one key."""

    def __init__(self, url: str, key: str) -> None:
        import httpx2

        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json", "Content-Encoding": "gzip"}
        timeout = httpx2.Timeout(SECONDS, connect=CONNECT_SECONDS)
        self._url = url
        try:
            self._client = httpx2.Client(base_url=url, headers=headers, timeout=timeout)
        except httpx2.InvalidURL as exc:
            raise _no_address() from exc

    def close(self) -> None:
        self._client.close()

    def push(self, node: str, ticket: str | None, seal: str | None, records: Sequence[Record]) -> Answer:
        """Raises Forked, RateLimited, or Unavailable: nobody knows then what has arrived."""
        told = self._ask(
            "push", {"node": node, "ticket": ticket, "seal": seal, "records": [as_json(one) for one in records]}
        )
        with self._understood():
            refused = {one["id"]: one["message"] for one in told["refused"] if one["id"]}
            return Answer(told["now"], told["ticket"], _parsed(told["merged"]), refused)

    def pull(
        self, node: str, ticket: str | None, seal: str | None, namespace: str, after: int, *, own: bool, limit: int
    ) -> Answer:
        where = {"namespace": namespace, "after": after, "own": own, "limit": limit}
        told = self._ask("pull", {"node": node, "ticket": ticket, "seal": seal, **where})
        with self._understood():
            return Answer(told["now"], told["ticket"], _parsed(told["records"]), {}, told["cursor"], told["left"])

    def _ask(self, verb: str, asked: dict[str, Any]) -> Any:
        import httpx2

        body = gzip.compress(json.dumps(asked, ensure_ascii=False).encode(), compresslevel=3)
        try:
            answer = self._client.post(f"/api/sync/{verb}", content=body)
            told = answer.json() if answer.content else {}
        except httpx2.TransportError as exc:
            raise Unavailable(f"The hub at {self._url} does not answer ({exc}).") from exc
        except (ValueError, httpx2.DecodingError) as exc:
            raise _no_hub(self._url) from exc
        if answer.is_success:
            return told
        raise _refusal(self._url, answer.status_code, answer.headers.get("Retry-After"), told)

    @contextmanager
    def _understood(self) -> Iterator[None]:
        """Read an answer. Raises Unavailable if it is not a hub's."""
        try:
            yield
        except (KeyError, TypeError) as exc:
            raise _no_hub(self._url) from exc


def _no_address() -> Invalid:
    return Invalid("A hub's address is like https://hub.example.com or http://127.0.0.1:8766.", field="url")


def _no_hub(url: str) -> Unavailable:
    return Unavailable(f"What answers at {url} is not a hub. Check the address.")


def _parsed(told: Sequence[object]) -> list[Record]:
    """Those we understand: a newer version may tell of more, and `resync` asks for it again."""
    records = []
    for one in told:
        try:
            records.append(parse(one))
        except Invalid as exc:
            log.warning("A note from the hub is left out, for its record is not understood here: %s", exc.message)
    return records


def _refusal(url: str, status: int, retry_after: str | None, told: Any) -> AppError:
    said = told if isinstance(told, dict) else {}
    message = str(said.get("detail") or said.get("message") or f"It answers {status}.")
    if said.get("error") == FORKED:
        return Forked(message)
    if status == 429:
        wait = float(retry_after) if retry_after and retry_after.isdigit() else RETRY_SECONDS
        return RateLimited(f"The hub at {url} says: {message}", retry_after=wait)
    if status == 401:
        return Invalid(f"The hub at {url} does not take the key: {message} Link again with one that it made.")
    if status == 404:
        return _no_hub(url)
    if status >= 500 or not said.get("error"):
        return Unavailable(f"The hub at {url} does not answer as one: {message}")
    return Invalid(f"The hub at {url} says: {message}")
