"""A node's hub over HTTP.

A hub is not trusted: its answers are limited in size and time and checked before use, and no redirect is followed.
"""

import gzip
import json
import logging
import re
import socket
import threading
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, TypeVar
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from memory_mcp.errors import AppError, Conflict, Invalid, RateLimited, Unavailable
from memory_mcp.services.sync.model import SkippedRecord
from memory_mcp.services.sync.protocol import (
    FORKED,
    MAX_ANSWER_BYTES,
    MAX_ANSWER_VALUES,
    MAX_CURSOR,
    MAX_HUB_TIME,
    MAX_RECORDS,
    MIN_HUB_TIME,
    printable,
    unpack,
)
from memory_mcp.services.sync.records import ID, Moment, NoteRecord, as_json, parse
from memory_mcp.text.json_counts import count_values

URL = r"^https?://([A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+])(:[0-9]{1,5})?(/[A-Za-z0-9._~/-]*)?$"
REQUEST_TIMEOUT_S = 60.0
CONNECT_TIMEOUT_S = 10.0
ANSWER_TIMEOUT_S = 300.0  # for a whole answer, even if bytes keep coming
DEFAULT_RETRY_AFTER_S = 5.0  # after status 429 without Retry-After
MAX_RETRY_AFTER_S = 120.0
MAX_SHOWN_CHARS = 300  # of a hub's message


log = logging.getLogger(__name__)
A = TypeVar("A", bound="_HubBody")


class NodeForked(Conflict):
    """The hub last saw this node in another state."""


@dataclass(frozen=True)
class HubAnswer:
    hub_now: str
    ticket: str
    records: list[NoteRecord]  # after a push: those for which the hub had newer values
    refused: dict[str, str]  # reasons by id
    cursor: int = 0
    left: int = 0
    skipped: list[SkippedRecord] = field(default_factory=list)  # invalid records


class _HubBody(BaseModel):
    """Fields of every answer of a hub. Unknown fields, from a newer hub, are ignored."""

    model_config: ClassVar[ConfigDict] = ConfigDict(strict=True)

    now: Moment
    ticket: Annotated[str, Field(pattern=r"^[!-~]{1,64}$")]


class _Refused(BaseModel):
    id: str | None
    message: str


class _Pushed(_HubBody):
    refused: Annotated[list[_Refused], Field(max_length=MAX_RECORDS)]
    merged: Annotated[list[Any], Field(max_length=MAX_RECORDS)]


class _Pulled(_HubBody):
    cursor: Annotated[int, Field(ge=0, le=MAX_CURSOR)]
    records: Annotated[list[Any], Field(max_length=MAX_RECORDS)]
    left: Annotated[int, Field(ge=0, le=MAX_CURSOR)]


def checked_url(url: str) -> str:
    """Raises Invalid."""
    if not re.match(URL, url.strip()):
        raise _no_address()
    return url.strip().rstrip("/")


def checked_key(key: str) -> str:
    """Raises Invalid."""
    if not re.fullmatch(r"[!-~]+", key.strip()):
        raise Invalid("This is not a key. Give one that `memory-mcp keys create` printed at the hub.", field="key")
    return key.strip()


def is_plain_http(url: str) -> bool:
    """Whether requests to this URL travel unencrypted to another machine."""
    parts = urlsplit(url)
    return parts.scheme == "http" and parts.hostname not in ("localhost", "127.0.0.1", "::1")


class HubClient:
    """Sends requests to one hub with one key."""

    def __init__(self, url: str, key: str) -> None:
        import httpx2

        headers = {
            "Authorization": f"Bearer {key}",
            "Content-Type": "application/json",
            "Content-Encoding": "gzip",
            "Accept-Encoding": "gzip",
        }
        timeout = httpx2.Timeout(REQUEST_TIMEOUT_S, connect=CONNECT_TIMEOUT_S)
        self._url = url
        self._stream: Any = None  # the network stream of the latest connection
        try:
            self._client = httpx2.Client(base_url=url, headers=headers, timeout=timeout, follow_redirects=False)
        except httpx2.InvalidURL as exc:
            raise _no_address() from exc

    def close(self) -> None:
        self._client.close()

    def push(self, node: str, ticket: str | None, seal: str | None, records: Sequence[NoteRecord]) -> HubAnswer:
        """Raises Forked, RateLimited, or Unavailable; then it is unknown which records arrived."""
        body = {"node": node, "ticket": ticket, "seal": seal, "records": [as_json(one) for one in records]}
        answer = self._parse(_Pushed, self._post("push", body))
        sent = {one.id for one in records}
        refused = {
            one.id: printable(one.message, MAX_SHOWN_CHARS) for one in answer.refused if one.id and one.id in sent
        }
        taken, skipped = parse_all(answer.merged)
        return HubAnswer(answer.now, answer.ticket, taken, refused, skipped=skipped)

    def pull(
        self, node: str, ticket: str | None, seal: str | None, namespace: str, after: int, *, own: bool, limit: int
    ) -> HubAnswer:
        where = {"namespace": namespace, "after": after, "own": own, "limit": limit}
        answer = self._parse(_Pulled, self._post("pull", {"node": node, "ticket": ticket, "seal": seal, **where}))
        is_stuck = answer.left and (answer.cursor == after or not answer.records)
        if answer.cursor < after or is_stuck:
            raise _no_hub(self._url, "Its pages do not come to an end.")
        taken, skipped = parse_all(answer.records)
        return HubAnswer(answer.now, answer.ticket, taken, {}, answer.cursor, answer.left, skipped)

    def _post(self, verb: str, arguments: dict[str, Any]) -> Any:
        import httpx2

        body = gzip.compress(json.dumps(arguments, ensure_ascii=False).encode(), compresslevel=3)
        with self._time_limit() as is_over:
            try:
                with self._client.stream(
                    "POST", f"/api/sync/{verb}", content=body, extensions={"trace": self._trace}
                ) as answer:
                    given = self._read(answer)
            except httpx2.TransportError as exc:
                why = f"not within {ANSWER_TIMEOUT_S:,.0f} s" if is_over.is_set() else exc
                raise Unavailable(f"The hub at {self._url} does not answer ({why}).") from exc
        try:
            text = given.decode()  # `json` accepts other encodings, but count_values does not
            if count_values(given, MAX_ANSWER_VALUES) > MAX_ANSWER_VALUES:
                raise self._too_large(f"{MAX_ANSWER_VALUES:,} values")
            data = json.loads(text) if text else {}
        except (ValueError, RecursionError) as exc:
            raise _no_hub(self._url) from exc
        if answer.is_success:
            return data
        raise _refusal(self._url, answer.status_code, answer.headers.get("Retry-After"), data)

    def _read(self, answer: Any) -> bytes:
        """The body. It is decompressed here because the HTTP client has no size limit."""
        encoding = answer.headers.get("Content-Encoding", "identity").strip().lower()
        if encoding not in ("identity", "gzip"):
            raise _no_hub(self._url)
        unpacker = zlib.decompressobj(wbits=31) if encoding == "gzip" else None
        body = bytearray()
        try:
            for chunk in answer.iter_raw():
                left = MAX_ANSWER_BYTES + 1 - len(body)
                body += unpack(unpacker, chunk, left) if unpacker else chunk[:left]
                if len(body) > MAX_ANSWER_BYTES:
                    raise self._too_large(f"{MAX_ANSWER_BYTES:,} bytes")
        except zlib.error as exc:
            raise _no_hub(self._url) from exc
        return bytes(body)

    def _too_large(self, limit: str) -> Unavailable:
        return Unavailable(
            f"The answer of the hub at {self._url} is larger than {limit}. No hub sends that much: check the address."
        )

    @contextmanager
    def _time_limit(self) -> Iterator[threading.Event]:
        """Close the connection if a whole answer takes too long: the client's timeouts apply to each read."""
        is_over = threading.Event()

        def end() -> None:
            is_over.set()
            with suppress(OSError, AttributeError):  # not connected yet: connecting has its own timeout
                self._stream.get_extra_info("socket").shutdown(socket.SHUT_RDWR)

        timer = threading.Timer(ANSWER_TIMEOUT_S, end)
        timer.daemon = True
        timer.start()
        try:
            yield is_over
        finally:
            timer.cancel()

    def _trace(self, event: str, info: dict[str, Any]) -> None:
        if event in ("connection.connect_tcp.complete", "connection.start_tls.complete"):
            self._stream = info["return_value"]

    def _parse(self, shape: type[A], data: Any) -> A:
        """Raises Unavailable if it is not a hub's answer."""
        try:
            answer = shape.model_validate(data)
        except ValidationError as exc:
            raise _no_hub(self._url) from exc
        if not MIN_HUB_TIME <= answer.now <= MAX_HUB_TIME:
            raise _no_hub(self._url, "Its clock is decades away.")
        return answer


def _no_address() -> Invalid:
    return Invalid("A hub's address is like https://hub.example.com or http://127.0.0.1:8766.", field="url")


def _no_hub(url: str, why: str = "") -> Unavailable:
    return Unavailable(" ".join(filter(None, [f"The server at {url} is not a hub.", why, "Check the address."])))


def parse_all(data: Iterable[object]) -> tuple[list[NoteRecord], list[SkippedRecord]]:
    """The valid records and the skipped ones, which a newer version may have written."""
    records, skipped = [], []
    for one in data:
        try:
            records.append(parse(one))
        except Invalid as exc:
            skipped.append(SkippedRecord(_id(one), exc.message))
    return records, skipped


def _id(data: object) -> str:
    found = data.get("id") if isinstance(data, dict) else None
    return found if isinstance(found, str) and re.fullmatch(ID, found) else ""


def _refusal(url: str, status: int, retry_after: str | None, data: Any) -> AppError:
    problem = data if isinstance(data, dict) else {}
    message = printable(problem.get("detail") or problem.get("message") or f"It answers {status}.", MAX_SHOWN_CHARS)
    if problem.get("error") == FORKED:
        return NodeForked(message)
    if status == 429:
        is_number = retry_after is not None and re.fullmatch(r"[0-9]{1,6}", retry_after)
        wait = float(retry_after or 0) if is_number else DEFAULT_RETRY_AFTER_S
        return RateLimited(f"The hub at {url} says: {message}", retry_after=min(wait, MAX_RETRY_AFTER_S))
    if status == 401:
        return Invalid(f"The hub at {url} does not accept the key: {message} Link again with a key made there.")
    if status == 404:
        return _no_hub(url)
    if status >= 500 or not problem.get("error"):
        return Unavailable(f"The hub at {url} does not work: {message}")
    return Invalid(f"The hub at {url} says: {message}")
