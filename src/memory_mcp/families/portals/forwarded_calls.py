"""What servers ask the one that has a user's portals for: the tools of the family, and what it declares for resources,
search and Home. Files, locks and engines stay there."""

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, TypeVar

from pydantic import TypeAdapter

from memory_mcp.caller import Caller, Scope
from memory_mcp.clock import new_id
from memory_mcp.errors import Invalid
from memory_mcp.families.family import Call, Document, LastWrite, ResourcePage, Tool
from memory_mcp.families.portals import maintenance, references, resources, search_texts
from memory_mcp.families.portals.family import counts
from memory_mcp.families.portals.model import PortalSummary
from memory_mcp.families.portals.operations import Portals
from memory_mcp.families.portals.row_undo import FoundRows, RowUndo
from memory_mcp.families.portals.tools import portals as family
from memory_mcp.families.references import GroupSize, Opened
from memory_mcp.families.texts import Text
from memory_mcp.progress import ReportProgress, report_nothing
from memory_mcp.services.sessions import Connection, Session

R = TypeVar("R")
TOOL = "tool "  # in front of its name, in the name of an operation
IndexedText = tuple[str, str, Text]
"""A text for recall, with its key and its version."""


@dataclass(frozen=True)
class Operation:
    run: Callable[..., Any]  # with a Call and the arguments, in their order
    answers: TypeAdapter[Any]
    arguments: tuple[str, ...] = ()
    needs: tuple[Scope, ...] = (Scope.READ,)

    @property
    def is_write(self) -> bool:
        """Whether it may change something."""
        return self.needs != (Scope.READ,)


@cache
def operations() -> Mapping[str, Operation]:
    """What servers ask for beside tools, by name."""

    def operation(run: Callable[..., Any], answers: Any, *arguments: str) -> Operation:
        return Operation(run, TypeAdapter(answers), arguments)

    return {
        "list_resources": operation(resources.list_page, ResourcePage, "cursor", "limit"),
        "read_resource": operation(resources.read, Document, "uri"),
        "complete": operation(resources.complete, list[str], "name", "value"),
        "open": operation(references.REFERENCES.open, Opened, "ref"),
        "counts": operation(_of_caller(counts), dict[str, int]),
        "last_writes": operation(_of_caller(_last_writes), list[LastWrite], "limit"),
        "sizes": operation(_of_caller(_sizes), list[GroupSize]),
        "groups": operation(_of_caller(_groups), list[tuple[str, str | None]]),
        "texts": operation(_of_caller(_texts), list[IndexedText], "group"),
        "summaries": operation(_of_caller(Portals.summaries), list[PortalSummary]),
        "versions": operation(_of_caller(maintenance.versions), dict[str, str]),
        "find_rows": operation(_of_caller(_find_rows), FoundRows, "uri", "marks", "undo_ids"),
        "undo_rows": replace(
            operation(_of_caller(_undo_rows), dict[int, int], "uri", "steps"),
            needs=(Scope.WRITE, Scope.DELETE, Scope.LINK),
        ),
    }


def _of_caller(function: Callable[..., R]) -> Callable[..., R]:
    return lambda call, *rest: function(call.operations, call.caller, *rest)


def _last_writes(portals: Portals, caller: Caller, limit: int) -> list[LastWrite]:
    return portals.last_written(caller)


def _sizes(portals: Portals, caller: Caller) -> list[GroupSize]:
    return list(references.sizes(portals, caller))


def _groups(portals: Portals, caller: Caller) -> list[tuple[str, str | None]]:
    """The names of the groups, and their versions."""
    return [(group.name, group.version) for group in search_texts.groups(portals, caller)]


def _texts(portals: Portals, caller: Caller, name: str) -> list[IndexedText]:
    """Those of one group; none if its portal was deleted meanwhile."""
    group = next((one for one in search_texts.groups(portals, caller) if one.name == name), None)
    if group is None:
        return []
    versions = group.versions()
    texts = zip(versions.items(), group.texts(list(versions)), strict=True)
    return [(key, version, text) for (key, version), text in texts if text is not None]


def _find_rows(portals: Portals, caller: Caller, uri: str, marks: Sequence[int], undo_ids: Sequence[str]) -> FoundRows:
    return portals.rows.find(caller, uri, marks, undo_ids)


def _undo_rows(portals: Portals, caller: Caller, uri: str, steps: Sequence[Sequence[Any]]) -> dict[int, int]:
    return portals.rows.undo(caller, uri, [RowUndo(*one) for one in steps])


def tool_of(operation: str) -> Tool | None:
    return family.tools.get(operation.removeprefix(TOOL)) if operation.startswith(TOOL) else None


def answers_of(operation: str) -> TypeAdapter[Any]:
    tool = tool_of(operation)
    return tool.answers if tool else operations()[operation].answers


def is_write(operation: str) -> bool:
    """Whether it may change something."""
    tool = tool_of(operation)
    return not tool.reads_only if tool else operations()[operation].is_write


def new_call(
    portals: Portals,
    caller: Caller,
    progress: ReportProgress = report_nothing,
    cancelled: threading.Event | None = None,
) -> Call[Portals]:
    """A call in a session of its own: portals have no data of sessions."""
    connection = Connection(caller.user, caller.session_id or new_id(), client=caller.client)
    session = Session(connection.own_session, connection, caller.client)
    return Call(portals, caller, session, progress, cancelled or threading.Event())


@dataclass(frozen=True)
class ReceivedCall:
    """A call that another server forwarded."""

    caller: Caller
    operation: str
    arguments: Mapping[str, Any]

    @classmethod
    def parse(cls, caller: Caller, body: bytes) -> "ReceivedCall":
        """Raises Invalid."""
        try:
            sent = json.loads(body)
            call = cls(caller, str(sent["operation"]), dict(sent["arguments"]))
        except (ValueError, KeyError, TypeError, RecursionError) as exc:
            raise Invalid("This is not a call of another server.") from exc
        if family.name not in caller.families:
            raise Invalid(f"This caller may not use the family {family.name}.")
        if tool_of(call.operation) is None and call.operation not in operations():
            raise Invalid(f"This server knows no {call.operation!r}. Run the same version on all servers.")
        return call

    @property
    def reads_only(self) -> bool:
        return not is_write(self.operation)

    def run(self, portals: Portals, progress: ReportProgress, cancelled: threading.Event) -> bytes:
        """The answer, as JSON. Raises AppError."""
        call = new_call(portals, self.caller, progress, cancelled)
        if tool := tool_of(self.operation):
            self.caller.require(tool.needs)
            return tool.answers.dump_json(tool.run(call, tool.arguments.model_validate(self.arguments)))
        operation = operations()[self.operation]
        for scope in operation.needs:
            self.caller.require(scope)
        answer = operation.run(call, *(self.arguments[name] for name in operation.arguments))
        return operation.answers.dump_json(answer)
