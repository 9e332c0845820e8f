"""Runs one hook. Whatever goes wrong, it prints nothing and ends with 0: a memory must never break or slow a client."""

import json
import os
import sys
import threading
import time
from collections.abc import Sequence
from functools import partial
from typing import Any, BinaryIO

from memory_mcp.hooks import records
from memory_mcp.hooks.events import is_capture
from memory_mcp.hooks.transport import DETACHED_FLAG, AnswerHook, send
from memory_mcp.relay.options import default_data_dir
from memory_mcp.system import operating_system

TIME_LIMIT_S = 1.8  # since the process started, so that it ends within two seconds
DETACHED_TIME_LIMIT_S = 300.0  # of a capture, which no client waits for
MAX_INPUT_BYTES = 16 * 1024 * 1024
READ_BYTES = 1024 * 1024  # at once


class HookRun:
    """One call, which a thread works on until it is done or the time is over."""

    def __init__(self, data_dir: str, event: str, client: str, answer: AnswerHook) -> None:
        self.data_dir = data_dir
        self.event = event
        self.client = client
        self.answer = answer
        self.done = threading.Event()
        self.output: Any = None
        self.report: dict[str, Any] = {}

    def work(self) -> None:
        try:
            payload = json.loads(_read_input(sys.stdin.buffer) or b"{}")
            answered = self.answer(self.data_dir, {"event": self.event, "client": self.client, "payload": payload})
            self.report = {**answered.get("report", {})}
            self.output = answered.get("output")
        except RuntimeError as exc:  # of the shared server
            self.report = {"did": "nothing", "why": str(exc)}
        except BaseException as exc:  # noqa: BLE001  # it is recorded, and the client must not notice
            self.report = {"did": "nothing", "why": f"{type(exc).__name__}: {exc}"}
        finally:
            self.done.set()


def run(arguments: Sequence[str], answer: AnswerHook) -> None:
    """Answer the event that the arguments name, and end the process."""
    event, client, data_dir = _parse(arguments)
    # No client waits for an answer to a capture, and it must not be lost because its process started slowly.
    started = time.monotonic() - (0.0 if is_capture(event) else operating_system.process_age_s())
    is_detached = DETACHED_FLAG in arguments
    time_limit_s = DETACHED_TIME_LIMIT_S if is_detached else TIME_LIMIT_S
    hook = HookRun(data_dir, event, client, answer if is_detached else partial(send, in_process=answer))
    threading.Thread(target=hook.work, daemon=True).start()
    is_done = hook.done.wait(started + time_limit_s - time.monotonic())
    report = hook.report if is_done else {"did": "nothing", "why": f"it took more than {time_limit_s:g} s"}
    try:
        if is_done and hook.output is not None:
            os.write(sys.stdout.fileno(), json.dumps(hook.output, ensure_ascii=False).encode())
    except (OSError, ValueError) as exc:
        report = {**report, "why": f"the client does not read the answer ({exc})"}
    elapsed_ms = round((time.monotonic() - started) * 1000)
    records.add(data_dir, {"client": client, "event": event, "ms": elapsed_ms, **report})
    os._exit(0)  # threads may still work; what they write is whole or not at all


def _read_input(stdin: BinaryIO) -> bytes:
    """What the client sends. All of it is read, so that no write of the client fails; more than MAX_INPUT_BYTES is
    dropped, and the rest is not JSON."""
    received = bytearray()
    while chunk := stdin.read(READ_BYTES):
        received += chunk[: MAX_INPUT_BYTES - len(received)]
    return bytes(received)


def _parse(arguments: Sequence[str]) -> tuple[str, str, str]:
    """Event, client and data directory of `EVENT --client CLIENT --data-dir DIR`, in any order. Unknown arguments are
    ignored."""
    event, given = "", {"--client": "claude-code", "--data-dir": os.environ.get("MEMORY_MCP_DATA_DIR", "")}
    left = iter(arguments)
    for argument in left:
        if argument in given:
            given[argument] = next(left, given[argument])
        elif not argument.startswith("-"):
            event = event or argument
    return event, given["--client"], _data_dir(given["--data-dir"])


def _data_dir(given: str) -> str:
    if not given and operating_system.THIS.is_posix:
        given = default_data_dir(dict(os.environ))
    if given:
        return os.path.abspath(os.path.expanduser(given))
    import platformdirs  # on Windows

    return platformdirs.user_data_dir("memory-mcp", appauthor=False)
