"""What the relay remembers of a conversation, so that another server can continue it: requests without an answer, and
those that set up the connection."""

from __future__ import annotations  # types are not there when it runs

import json

TYPE_CHECKING = False  # typing itself would take a part of the start
if TYPE_CHECKING:
    from typing import Any

    Key = tuple[str, ...]

CALL_PREFIX = b'{"jsonrpc":"2.0","id":'  # how the server's answers begin
MAX_ID_BYTES = 64
SUBSCRIBE, UNSUBSCRIBE = "resources/subscribe", "resources/unsubscribe"
CHOOSE_SESSION = "set_session_id"  # the tool


class Request:
    """A request of the client that has no answer yet."""

    def __init__(self, line: bytes, message: dict[str, Any]) -> None:
        self.line = line
        self.method = message["method"]
        self.params = message.get("params")
        self.uri = self.params.get("uri") if isinstance(self.params, dict) else None
        self.is_sent = False  # all of it, to the present server
        self.attempts = 0  # servers that ended before they answered it

    def as_lost(self) -> dict[str, Any]:
        return {"line": self.line.decode("utf-8", "replace"), "attempts": self.attempts}


class Conversation:
    def __init__(self) -> None:
        self._unanswered: dict[Key, Request] = {}
        self._handshake: list[dict[str, Any]] = []
        self._settings: dict[Key, dict[str, Any]] = {}  # subscriptions and the chosen session, each once

    @property
    def is_settled(self) -> bool:
        return not self._unanswered

    def note_request(self, line: bytes) -> Request | None:
        """Remember a line of the client. Returns the request, if it is one that will be answered."""
        message = _parsed(line)
        if not isinstance(message, dict) or not isinstance(message.get("method"), str):
            return None
        if message["method"] == "notifications/cancelled":
            params = message.get("params")
            self._unanswered.pop(_key(params.get("requestId")) if isinstance(params, dict) else (), None)
        elif message["method"] == "notifications/initialized" and self._handshake:
            self._handshake[1:] = [{"method": message["method"]}]
        if "id" not in message:
            return None
        request = self._unanswered[_key(message["id"])] = Request(line, message)
        return request

    def note_answer(self, line: bytes) -> None:
        """Remember a line of the server."""
        found = _id_of_answer(line)
        request = self._unanswered.pop(_key(found[0]), None) if found else None
        if request is not None and _is_setup(request):
            answer = _parsed(line)
            result = answer.get("result") if isinstance(answer, dict) else None
            if isinstance(result, dict) and not result.get("isError"):
                self._note_setup(request)

    def _note_setup(self, request: Request) -> None:
        setup = {"method": request.method, "params": request.params}
        if request.method == "initialize":
            self._handshake[:1] = [setup]
        elif request.method == "tools/call":
            self._settings[(CHOOSE_SESSION,)] = setup
        else:
            uri = (SUBSCRIBE, str(request.uri))
            self._settings.pop(uri, None)
            if request.method == SUBSCRIBE:
                self._settings[uri] = setup

    def setup(self) -> list[dict[str, Any]]:
        """The messages that bring another server to the state of this connection."""
        return [*self._handshake, *self._settings.values()]

    def take_lost(self) -> list[dict[str, Any]]:
        """The requests that the last server has received and not answered."""
        lost = [request for request in self._unanswered.values() if request.is_sent]
        for request in lost:
            request.attempts += 1
        return [request.as_lost() for request in lost]


def _is_setup(request: Request) -> bool:
    if not isinstance(request.params, dict):
        return False
    is_choice = request.method == "tools/call" and request.params.get("name") == CHOOSE_SESSION
    return is_choice or request.method in ("initialize", SUBSCRIBE, UNSUBSCRIBE)


def _parsed(line: bytes) -> object:
    """None for a line that is no JSON: the server will say so to the client."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _id_of_answer(line: bytes) -> list[Any] | None:
    """The id of an answer, in a list; None if the line is another message. Long answers are not parsed as a whole."""
    start = len(CALL_PREFIX)
    end = line.find(b",", start, start + MAX_ID_BYTES) if line.startswith(CALL_PREFIX) else -1
    if end > 0 and line.startswith((b',"result":', b',"error":'), end):
        found = _parsed(line[start:end])
        if isinstance(found, (int, str)):
            return [found]
    message = _parsed(line)
    if isinstance(message, dict) and "id" in message and "method" not in message:
        return [message["id"]]
    return None


def _key(id_: object) -> Key:
    """1 and "1" are two ids."""
    return (type(id_).__name__, str(id_))
