"""Running a tool, whichever door it was called through."""

import json
import logging
from collections.abc import Mapping
from typing import Any

from memory_mcp.access import Deed
from memory_mcp.doors import arguments
from memory_mcp.errors import Unavailable
from memory_mcp.families import Call, Tool

log = logging.getLogger(__name__)

LONGEST_AUDITED = 2000  # characters of a deletion's arguments


def run(call: Call, tool: Tool, given: Mapping[str, Any] | None) -> Any:
    """From raw arguments to the answer. Raises AppError. What is deleted is said in the audit log."""
    answer = tool.run(call, arguments.parse(tool, given))
    if tool.deletes:
        _audit(call, tool, given)
    return answer


def _audit(call: Call, tool: Tool, given: Mapping[str, Any] | None) -> None:
    """It is gone by now: a log that cannot be written does not bring it back."""
    said = json.dumps(given or {}, ensure_ascii=False)
    details = {"arguments": given} if len(said) <= LONGEST_AUDITED else {"arguments_begin": said[:LONGEST_AUDITED]}
    deed = Deed(tool.name, call.caller.key_id, call.session.client, call.caller.ip, details)
    try:
        call.app.access.audit.say(call.caller.user, deed)
    except Unavailable as exc:
        log.warning("A deletion by %s is missing in the audit log: %s", tool.name, exc.message)
