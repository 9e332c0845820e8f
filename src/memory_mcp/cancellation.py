"""Calls that end early because the client cancelled them or has left."""

import threading

from memory_mcp.errors import Unavailable


def check_not_cancelled(cancelled: threading.Event | None) -> None:
    """Raises Unavailable if the event is set. No client reads that error; it rolls the call back."""
    if cancelled is not None and cancelled.is_set():
        raise Unavailable("The call was cancelled, and nothing was changed.")
