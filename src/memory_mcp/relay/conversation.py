"""The relay's memory of a conversation, so that another server can continue it: requests without an answer, and those
that set up the connection."""

from __future__ import annotations  # the names of types are not defined at run time

import json

TYPE_CHECKING = False  # importing `typing` would take a part of the start
if TYPE_CHECKING:
    from typing import Any

    Key = tuple[str, ...]

ANSWER_PREFIX = b'{"jsonrpc":"2.0","id":'  # how the server's answers begin
MAX_ID_BYTES = 64
INTERNAL_ERROR = -32603  # of JSON-RPC
SUBSCRIBE, UNSUBSCRIBE = "resources/subscribe", "resources/unsubscribe"
CHOOSE_SESSION = "set_session_id"  # the tool


class PendingRequest:
    """A request of the client that has no answer yet."""

    def __init__(self, line: bytes, message: dict[str, Any]) -> None:
        self.line = line
        self.id = message["id"]
        self.method = message["method"]
        self.params = message.get("params")
        self.uri = self.params.get("uri") if isinstance(self.params, dict) else None
        self.is_sent = False  # all of it, to the present server
        self.attempts = 0  # servers that ended before they answered it

    def as_lost(self) -> dict[str, Any]:
        return {"line": self.line.decode("utf-8", "replace"), "attempts": self.attempts}


class ConversationState:
    """One client's requests without an answer, and the setup of its connection."""

    def __init__(self) -> None:
        self._unanswered: dict[Key, PendingRequest] = {}
        self._handshake: list[dict[str, Any]] = []
        self._settings: dict[Key, dict[str, Any]] = {}  # subscriptions and the chosen session, each once

    @property
    def is_settled(self) -> bool:
        return not self._unanswered

    def note_request(self, line: bytes) -> PendingRequest | None:
        """Remember a line of the client. Returns the request, if it is one that will be answered under its id."""
        message = _parsed(line)
        if not isinstance(message, dict) or not isinstance(message.get("method"), str):
            return None
        if message["method"] == "notifications/cancelled":
            params = message.get("params")
            self._unanswered.pop(_key(params.get("requestId")) if isinstance(params, dict) else (), None)
        elif message["method"] == "notifications/initialized" and self._handshake:
            self._handshake[1:] = [{"method": message["method"]}]
        if not _is_id(message.get("id")):
            return None
        request = self._unanswered[_key(message["id"])] = PendingRequest(line, message)
        return request

    def note_answer(self, line: bytes) -> None:
        """Remember a line of the server."""
        request = self._unanswered.pop(_key(_id_of_answer(line)), None)
        if request is not None and _is_setup(request):
            answer = _parsed(line)
            result = answer.get("result") if isinstance(answer, dict) else None
            if isinstance(result, dict) and not result.get("isError"):
                self._note_setup(request)

    def _note_setup(self, request: PendingRequest) -> None:
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
        """The requests that the last server has received and not answered. Counts one more attempt for each."""
        lost = [request for request in self._unanswered.values() if request.is_sent]
        for request in lost:
            request.attempts += 1
        return [request.as_lost() for request in lost]

    def take_failures(self, message: str) -> list[bytes]:
        """An answer to each request: it failed. Those that a server has received may have been carried out."""
        lines = []
        for request in self._unanswered.values():
            data = {"error": "unavailable", "may_have_happened": request.is_sent}
            error = {"code": INTERNAL_ERROR, "message": message, "data": data}
            lines.append(json.dumps({"jsonrpc": "2.0", "id": request.id, "error": error}).encode())
        self._unanswered.clear()
        return lines


def _is_setup(request: PendingRequest) -> bool:
    if not isinstance(request.params, dict):
        return False
    is_choice = request.method == "tools/call" and request.params.get("name") == CHOOSE_SESSION
    return is_choice or request.method in ("initialize", SUBSCRIBE, UNSUBSCRIBE)


def _parsed(line: bytes) -> object:
    """None for a line that is not JSON: the server answers it with an error."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _id_of_answer(line: bytes) -> object:
    """None if the line is another message. Long answers are not parsed as a whole."""
    start = len(ANSWER_PREFIX)
    end = line.find(b",", start, start + MAX_ID_BYTES) if line.startswith(ANSWER_PREFIX) else -1
    if end > 0 and line.startswith((b',"result":', b',"error":'), end):
        found = _parsed(line[start:end])
        if _is_id(found):
            return found
    message = _parsed(line)
    return message.get("id") if isinstance(message, dict) and "method" not in message else None


def _is_id(value: object) -> bool:
    """Whether servers answer requests under it. Requests with another id get an answer without one."""
    return isinstance(value, (int, str)) and not isinstance(value, bool)


def _key(id_: object) -> Key:
    """1 and "1" are two ids."""
    return (type(id_).__name__, str(id_))
