"""Every error this server raises on purpose.

AppError            the caller may read the message
  Invalid           the arguments make no sense           (invalid, read_only_query, unknown_table, unknown_column,
                                                           unknown_function, type_mismatch)
    LimitExceeded   what they ask for is too much         (too_large, timeout)
  NotFound          no such thing, or not this caller's   (not_found, expired, store_not_registered, no_active_project)
  Conflict          it exists, or another was first       (conflict)
  Forbidden         the caller lacks a scope              (scope_required; over HTTP: access.KeyRefused, NotSignedIn)
  RateLimited       too many requests, try later          (rate_limited)
  Unavailable       a disk, model or peer is down         (unavailable)
    Unusable        a file is damaged or unreadable       (unavailable)
    TransactionLost the database undid the transaction    (unavailable)

Each carries a `code` that programs can rely on, `data` that goes with it, and texts for two kinds of readers: `message`
says what is wrong, and names no tool or argument of MCP; `hint` says which tool a model calls next, `people_hint` what
a person at the command line or in the web app does. Anything that is not an AppError is a bug: the server logs it with
its traceback and sends the caller no details.
"""

import math
from typing import Any, Literal

CODES = {
    "invalid": "An argument is missing, malformed or out of bounds. `data.field` names it where one is to blame.",
    "not_found": "Nothing has that name or id, or this caller may not see it: the answer is the same for both. "
    "For a project, store, portal or table, `data.nearest` lists the most similar names that the caller may see.",
    "conflict": "Something with that name exists, or another writer changed it first.",
    "no_active_project": "The session has no active project. Use `switch_project`, or give `project` in the call.",
    "store_not_registered": "No store has this name. `add_memory` creates it, `memory-mcp stores add` registers one. "
    "`data.nearest` lists the most similar names.",
    "changed": "Another process wrote to the file while it was edited. Read it again, then repeat the edit.",
    "expired": "The memory has expired. Set `include_expired` to see it.",
    "scope_required": "The caller's key or `--scopes` does not allow this. `data.scope` names what is missing.",
    "read_only_query": "The query would write, or reach something other than the tables of its portal. A query is one "
    "SELECT with functions that only compute. The message names the refused part.",
    "unknown_table": "The portal has no table of this name. `data.nearest` lists the nearest name, where there is one.",
    "unknown_column": "The tables of the query have no column of this name. `data.nearest` lists the nearest name, "
    "where there is one.",
    "unknown_function": "The engine has no function of this name. `data.nearest` lists the nearest name, where there "
    "is one.",
    "type_mismatch": "A query compares, converts or computes with values of types that do not fit. The message has a "
    "suggestion, such as toDate(x).",
    "too_large": "A field is over 1 MiB, or a file or query is over its limit. Split it, or request less at a time.",
    "timeout": "The time limit was reached, and nothing was changed. Request less, or split the input.",
    "rate_limited": "More requests than the plan allows, or too many attempts. `Retry-After` says when to try again.",
    "unavailable": "The disk, another program or a part of the server does not respond, or the server is busy. Trying "
    "again may help; `data.retry_after` says after how many seconds, where that is known. If the message names "
    "`memory-mcp doctor`, trying again does not help: a file is damaged or of another version.",
}
"""The codes an error of a tool or resource can carry, and what each means."""

KEY_CODES = {
    "missing_bearer": "No key was sent. Send it as `Authorization: Bearer mmcp_…`.",
    "invalid_token": "This server does not know the key. Check that it was copied whole.",
    "expired": "The key has expired. Create a new one with `memory-mcp keys create`.",
    "revoked": "The key was revoked. Create a new one with `memory-mcp keys create`.",
    "not_signed_in": "Over REST: the request has no valid sign-in, or the name, the password or the link is wrong.",
}
"""The codes of a 401 answer, before MCP is reached."""

HUB_CODES = {
    "clock_ahead": "A record's stamps are ahead of the hub's clock. Set the clock of the computer that wrote it.",
    "node_forked": "The hub last saw this node in another state. The node handles it itself: it syncs from the start.",
    "other_secret": "The namespace is encrypted with another secret, or not at all. Link every node with the same one.",
}
"""The codes that only a hub sends to a node. docs/errors.md is made from these three."""


MAX_MESSAGE_CHARS = 2000  # longer ones lose their middle
MAX_QUOTED_CHARS = 100  # of a caller's text, quoted in a message


def shorten(text: str) -> str:
    """The beginning of a caller's text, with an ellipsis if it was cut."""
    return text if len(text) <= MAX_QUOTED_CHARS else f"{text[: MAX_QUOTED_CHARS - 1]}…"


class AppError(Exception):
    """Base class; its texts are written for the caller and safe to show. A message that is too long is cut."""

    code: str

    def __init__(
        self, message: str, *, code: str | None = None, hint: str = "", people_hint: str = "", **data: Any
    ) -> None:
        half = MAX_MESSAGE_CHARS // 2
        self.message = message if len(message) <= MAX_MESSAGE_CHARS else f"{message[:half]} … {message[-half:]}"
        self.hint = hint
        self.people_hint = people_hint
        super().__init__(_join(self.message, hint))
        self.data = data | {"field": shorten(data["field"])} if isinstance(data.get("field"), str) else data
        self.code = code or type(self).code

    @property
    def public_message(self) -> str:
        """The message, without what only the owner of the server may know."""
        return self.message

    @property
    def text_for_models(self) -> str:
        return _join(self.public_message, self.hint)

    @property
    def text_for_people(self) -> str:
        return _join(self.public_message, self.people_hint)

    @property
    def text_for_owner(self) -> str:
        """For the command line, on the machine that has the files."""
        return _join(self.message, self.people_hint)


def _join(message: str, hint: str) -> str:
    return f"{message} {hint}" if hint else message


class Invalid(AppError):
    code = "invalid"


class LimitExceeded(Invalid):
    """Work reached a limit, and was stopped."""

    def __init__(self, message: str, *, limit: Literal["time", "memory", "size"]) -> None:
        super().__init__(message, code="timeout" if limit == "time" else "too_large")
        self.limit = limit


class NotFound(AppError):
    code = "not_found"


class Conflict(AppError):
    code = "conflict"


class Forbidden(AppError):
    code = "scope_required"


class RateLimited(AppError):
    code = "rate_limited"

    def __init__(self, message: str, *, retry_after: float) -> None:
        """`retry_after` is in seconds, as the header of that name."""
        super().__init__(message, retry_after=math.ceil(retry_after))


class Unavailable(AppError):
    code = "unavailable"


class TransactionLost(Unavailable):
    """The database undid a transaction that had begun: its connection was lost, or another change came first. The same
    work may succeed at once (retries.py)."""


class Unusable(Unavailable):
    """Trying again does not help: the file is damaged, of another kind or cannot be opened.

    `message` names the file, for the log, the command line and `doctor`. It is not sent to clients.
    """

    @property
    def public_message(self) -> str:
        return (
            "A file that this needs cannot be used, and trying again does not help. Nothing was changed. "
            "`memory-mcp doctor`, run where the server runs, says which file it is and what to do."
        )
