"""What went wrong with a request, as its answer says it. `portal_engine.failed` makes an error for the caller of it."""

from typing import Any

from memory_mcp.engines.chdb import archive, error_messages, sql_policy
from memory_mcp.engines.chdb.parameters import Unfit


def describe(exc: Exception) -> dict[str, Any]:
    if isinstance(exc, archive.DamagedArchive):
        return failure("damaged", str(exc))
    if isinstance(exc, Unfit):
        return failure("unfit", str(exc))
    if isinstance(exc, sql_policy.QueryTooLarge):
        return failure("too much", str(exc))
    if isinstance(exc, sql_policy.QueryRefused):
        return {**failure("refused", str(exc)), "error": exc.code, "nearest": exc.nearest}
    kind = "unfit" if error_messages.is_of_a_parameter(exc) else "engine"
    return failure(kind, error_messages.plain_message(exc), error_messages.code(exc))


def failure(kind: str, message: str, code: int = 0) -> dict[str, Any]:
    return {"ok": False, "kind": kind, "message": message, "code": code}
