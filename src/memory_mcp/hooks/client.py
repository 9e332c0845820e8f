"""Runs one hook. Whatever goes wrong, it prints nothing and ends with 0: a memory must never break or slow a client."""

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from memory_mcp.hooks import records
from memory_mcp.hooks.events import MOMENTS

TIME_LIMIT_S = 2.0
DETACHED_TIME_LIMIT_S = 300.0  # of a capture, which no client waits for
DETACHED_FLAG = "--detached"
MAX_INPUT_BYTES = 16 * 1024 * 1024

Call = dict[str, Any]
"""The `event` as the client names it, the `client` and the `payload` that it sends."""
Answer = Callable[[str, Call], dict[str, Any]]
"""From the data directory and a call: the JSON for the client as `output`, and a `report`."""


@dataclass
class HookRun:
    """One call, which a thread works on until it is done or the time is over."""

    data_dir: str
    event: str
    client: str
    answer: Answer
    done: threading.Event = field(default_factory=threading.Event)
    output: Any = None
    report: dict[str, Any] = field(default_factory=dict)

    def work(self) -> None:
        try:
            payload = json.loads(sys.stdin.buffer.read(MAX_INPUT_BYTES) or b"{}")
            answered = self.answer(self.data_dir, {"event": self.event, "client": self.client, "payload": payload})
            self.report = {**answered.get("report", {})}
            self.output = answered.get("output")
        except BaseException as exc:  # noqa: BLE001  # it is recorded, and the client must not notice
            self.report = {"did": "nothing", "why": f"{type(exc).__name__}: {exc}"}
        finally:
            self.done.set()


def run(arguments: Sequence[str], answer: Answer) -> None:
    """Answer the event that the arguments name, and end the process."""
    began = time.monotonic()
    event, client, data_dir = _parse(arguments)
    is_detached = DETACHED_FLAG in arguments
    if MOMENTS.get(event) == "capture" and not is_detached:
        answer = capture_detached
    time_limit_s = DETACHED_TIME_LIMIT_S if is_detached else TIME_LIMIT_S
    hook = HookRun(data_dir, event, client, answer)
    threading.Thread(target=hook.work, daemon=True).start()
    is_done = hook.done.wait(time_limit_s)
    report = hook.report if is_done else {"did": "nothing", "why": f"it took more than {time_limit_s:g} s"}
    try:
        if is_done and hook.output is not None:
            os.write(sys.stdout.fileno(), json.dumps(hook.output, ensure_ascii=False).encode())
    except (OSError, ValueError) as exc:
        report = {**report, "why": f"the client does not read the answer ({exc})"}
    elapsed_ms = round((time.monotonic() - began) * 1000)
    records.add(data_dir, {"client": client, "event": event, "ms": elapsed_ms, **report})
    os._exit(0)  # threads may still work; what they write is whole or not at all


def capture_detached(data_dir: str, call: Call) -> dict[str, Any]:
    """Start another process for a capture: the client that ends may kill those it waits for."""
    import subprocess  # a prompt does not need it

    options = ["--client", call["client"], "--data-dir", data_dir, DETACHED_FLAG]
    process = subprocess.Popen(
        [sys.executable, "-m", "memory_mcp", "hook", call["event"], *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=os.path.sep,
        start_new_session=True,
    )
    with process.stdin or open(os.devnull, "wb") as pipe:
        pipe.write(json.dumps(call["payload"]).encode())
    return {"report": {"did": "started a capture"}}


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
    if given:
        return os.path.abspath(os.path.expanduser(given))
    import platformdirs

    return platformdirs.user_data_dir("memory-mcp", appauthor=False)
