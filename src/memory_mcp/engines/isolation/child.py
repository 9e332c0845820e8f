"""The child's side: `python -m memory_mcp.engines.isolation.child LIMITS`. It limits itself, then answers until stdin
ends.

It imports little, because each task waits for the imports.
"""

import ctypes
import errno
import gc
import importlib
import json
import os
import resource
import signal
import sys
import traceback
from pathlib import Path
from typing import Any

from memory_mcp.engines.isolation.sandbox import restrict_files
from memory_mcp.errors import AppError

OWN = "memory_mcp."  # only functions of this package are called
_PARENT_DEATH_SIGNAL = 1  # of prctl


def main() -> None:
    limits: dict[str, Any] = json.loads(sys.argv[1])
    _end_with_parent(limits["parent"])
    _limit_resources(limits)
    _limit_files(limits)
    gc.disable()  # it would scan the values of a large file again and again; the process soon ends
    for line in sys.stdin.buffer:
        answer, is_last = _answer(line)
        sys.stdout.buffer.write(answer + b"\n")
        sys.stdout.buffer.flush()
        if is_last:
            return


def _answer(line: bytes) -> tuple[bytes, bool]:
    """The answer to a request, and whether the process has to end after it."""
    try:
        return json.dumps({"result": _call(json.loads(line))}).encode(), False
    except AppError as exc:
        error = {"class": type(exc).__name__, "message": exc.message, "code": exc.code, "data": exc.data}
        return json.dumps({"error": error | {"hint": exc.hint, "people_hint": exc.people_hint}}).encode(), False
    except MemoryError:
        return b'{"limit": "memory"}', True
    except Exception as exc:  # noqa: BLE001  # the server logs it
        if isinstance(exc, OSError) and exc.errno == errno.EFBIG:
            return b'{"limit": "size"}', True
        return json.dumps({"bug": traceback.format_exc()}).encode(), True


def _call(request: dict[str, Any]) -> Any:
    if not request["module"].startswith(OWN):
        raise ValueError(request["module"])
    function = getattr(importlib.import_module(request["module"]), request["function"])
    return function(*request["arguments"])


def _end_with_parent(parent: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit(1)


def _limit_resources(limits: dict[str, Any]) -> None:
    wanted = {
        resource.RLIMIT_CPU: limits["seconds"],
        resource.RLIMIT_AS: limits["memory_bytes"],
        resource.RLIMIT_FSIZE: limits["file_bytes"],
        resource.RLIMIT_NOFILE: limits["open_files"],
        resource.RLIMIT_CORE: 0,
    }
    for name, limit in wanted.items():
        try:
            resource.setrlimit(name, (limit, limit))
        except (ValueError, OSError):  # the system lacks this limit, or has a lower one already
            continue


def _limit_files(limits: dict[str, Any]) -> None:
    restrict_files(
        readable=map(Path, ("/dev/null", *limits["readable"])),
        writable=map(Path, limits["writable"]),
        network=limits["network"],
    )


if __name__ == "__main__":
    main()
