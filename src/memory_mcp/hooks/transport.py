"""Where the call of a hook is answered: by the shared server, which is warm, or in this process."""

import json
import os
import sys
from collections.abc import Callable
from typing import Any

from memory_mcp.hooks.events import CAPTURE_STARTED, is_capture
from memory_mcp.relay import link
from memory_mcp.relay.options import NotShared, RelayOptions
from memory_mcp.relay.server_socket import ServerSocket
from memory_mcp.system import operating_system

DETACHED_FLAG = "--detached"

RawHookCall = dict[str, Any]
"""The `event` as the client names it, the `client` and the `payload` that it sends."""
AnswerHook = Callable[[str, RawHookCall], dict[str, Any]]
"""From the data directory and a call: the JSON for the client as `output`, and a `report`."""


def send(data_dir: str, call: RawHookCall, in_process: AnswerHook) -> dict[str, Any]:
    """Answer a call by the shared server or, where there can be none, in this process; a capture in a process that no
    client waits for. Raises RuntimeError if the server could not answer."""
    try:
        return _answer_shared(data_dir, call)
    except NotShared:
        return capture_detached(data_dir, call) if is_capture(call["event"]) else in_process(data_dir, call)


def _answer_shared(data_dir: str, call: RawHookCall) -> dict[str, Any]:
    options = RelayOptions(["--data-dir", data_dir], dict(os.environ))
    server = ServerSocket(options.data_dir)
    server.prepare()
    answer = link.request(options, server, "hook", payload=call)
    if "failed" in answer:
        raise RuntimeError(answer["failed"])
    return answer


def capture_detached(data_dir: str, call: RawHookCall) -> dict[str, Any]:
    """Start another process for a capture: the client that ends may kill those it waits for."""
    import subprocess  # a prompt does not need it

    options = ["--client", call["client"], "--data-dir", data_dir, DETACHED_FLAG]
    process = subprocess.Popen(
        [sys.executable, "-m", "memory_mcp", "hook", call["event"], *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=os.path.sep,
        **operating_system.THIS.background_options,
    )
    with process.stdin or open(os.devnull, "wb") as pipe:
        pipe.write(json.dumps(call["payload"]).encode())
    return CAPTURE_STARTED
