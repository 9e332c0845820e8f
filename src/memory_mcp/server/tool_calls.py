"""Runs tools, for every protocol."""

import json
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from memory_mcp import retries
from memory_mcp.changes import Changes
from memory_mcp.errors import AppError, Unavailable
from memory_mcp.families.family import Call, Family, Tool
from memory_mcp.server import arguments
from memory_mcp.server.argument_references import find_owner
from memory_mcp.services.access import Audit, AuditEvent

log = logging.getLogger(__name__)

MAX_AUDITED_CHARS = 2000  # of a deletion's arguments


@dataclass(frozen=True)
class FinishedCall:
    """A tool call that has ended."""

    tool: str
    user: str
    seconds: float
    error: str | None  # its code


class ToolCalls:
    """The one entry of every tool call and every write over REST: scope, arguments, the tool itself, audit, notices."""

    def __init__(
        self, families: Mapping[str, Family[Any]], audit: Audit, changes: Changes, *, repeats_lost: bool = False
    ) -> None:
        """`repeats_lost`: calls whose transaction was lost by the database are repeated, where that is safe."""
        self._families = families
        self._audit = audit
        self._changes = changes
        self._repeats_lost = repeats_lost
        self.on_call: list[Callable[[FinishedCall], None]] = []

    def run(self, call: Call[Any], tool: Tool, given: Mapping[str, Any] | None) -> Any:
        """Run a tool with raw arguments. Raises AppError. Records each deletion in the audit log, and publishes to the
        web app which family was written to."""
        began = time.perf_counter()
        error: str | None = Unavailable.code  # unless it turns out otherwise
        try:
            call.caller.require(tool.needs)
            parsed = arguments.parse(tool, given, partial(find_owner, self._families, call.caller))
            if self._repeats_lost:
                answer = retries.run(partial(tool.run, call, parsed), reads_only=tool.reads_only)
            else:
                answer = tool.run(call, parsed)
            error = None
        except AppError as exc:
            error = exc.code
            raise
        finally:
            called = FinishedCall(tool.name, call.caller.user, time.perf_counter() - began, error)
            for notify in self.on_call:
                notify(called)
        if tool.deletes:
            self._record(call, tool, tool.audit(parsed, answer) if tool.audit else _arguments(given))
        if not tool.reads_only:
            self._changes.publish_topic(call.caller.user, tool.family)
        return answer

    def _record(self, call: Call[Any], tool: Tool, details: Mapping[str, Any]) -> None:
        """Never fails: the deletion is done, whether or not it can be recorded."""
        event = AuditEvent(tool.name, call.caller.key_id, call.session.client, call.caller.ip, details)
        try:
            self._audit.record(call.caller.user, event)
        except Unavailable as exc:
            log.warning("A deletion by %s is missing in the audit log: %s", tool.name, exc.message)


def _arguments(given: Mapping[str, Any] | None) -> dict[str, Any]:
    text = json.dumps(given or {}, ensure_ascii=False)
    return {"arguments": given} if len(text) <= MAX_AUDITED_CHARS else {"arguments_begin": text[:MAX_AUDITED_CHARS]}
