"""How a server process ends: always, and within seconds."""

import logging
import os
import sys
import threading
import time
from contextlib import suppress

log = logging.getLogger(__name__)

MAX_SHUTDOWN_S = 5.0  # from the signal to the end of the process
MAX_WRITE_S = 2.0  # for writes that are in their transaction


def limit_shutdown(timeout_s: float = MAX_SHUTDOWN_S) -> None:
    """From now on the process has so many seconds. Then it ends, whatever its threads wait for: what was acknowledged
    is on the disk, and the next server clears what is left of its sessions."""
    threading.Thread(target=_end_after, args=(timeout_s,), name="shutdown", daemon=True).start()


def _end_after(timeout_s: float) -> None:
    time.sleep(timeout_s)
    log.warning("The server ends after %d s without waiting for the work that is still under way.", timeout_s)
    end_process(0)


def end_process(code: int) -> None:
    """End now. Threads that are stuck would keep Python itself waiting."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):  # closed, or there is none
            stream.flush()
    os._exit(code)
