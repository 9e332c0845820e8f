"""The end of a server process, within seconds."""

import logging
import os
import sys
import threading
import time
from contextlib import suppress

from memory_mcp.errors import Unavailable

log = logging.getLogger(__name__)

RETRY_AFTER_S = 1  # for clients: another server may run then
MAX_SHUTDOWN_S = 5.0  # from the signal to the end of the process
MAX_WRITE_S = 2.0  # for writes that are in their transaction
MAX_ANSWER_S = 1.0  # of it, for their answers over HTTP
MAX_CUT_OFF_S = 0.5  # for the answers of those that take longer
MAX_DRAIN_S = MAX_WRITE_S - MAX_ANSWER_S  # for those to end, when all answers are sent


def limit_shutdown(timeout_s: float = MAX_SHUTDOWN_S) -> None:
    """End the process after so many seconds, whatever its threads wait for. Acknowledged writes are on the disk, and
    the next server ends its sessions."""
    threading.Thread(target=_end_after, args=(timeout_s,), name="shutdown", daemon=True).start()


def write_cut_off(what: str) -> Unavailable:
    """For the client of a write (a "call" or a "request") that the server no longer waits for."""
    return Unavailable(
        f"The server stopped while it worked on this {what}, which may have been carried out. Look at what is stored "
        "before you repeat it.",
        retry_after=RETRY_AFTER_S,
        may_have_happened=True,
    )


def _end_after(timeout_s: float) -> None:
    time.sleep(timeout_s)
    log.warning("The server ends after %d s without waiting for the work that is still under way.", timeout_s)
    end_process(0)


def end_process(code: int) -> None:
    """End now. Python itself would wait for blocked threads."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):  # closed, or there is none
            stream.flush()
    os._exit(code)
