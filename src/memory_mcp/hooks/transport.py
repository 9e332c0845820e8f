"""Sends the call of a hook to the shared server, which is warm."""

import os
from typing import Any

from memory_mcp.relay import link
from memory_mcp.relay.options import Options
from memory_mcp.relay.server_socket import ServerSocket


def answer_shared(data_dir: str, call: dict[str, Any]) -> dict[str, Any]:
    """Raises NotShared if this process has to answer itself, and RuntimeError if the server could not answer."""
    options = Options(["--data-dir", data_dir], dict(os.environ))
    server = ServerSocket(options.data_dir)
    server.prepare()
    answer = link.ask(options, server, "hook", payload=call)
    if "failed" in answer:
        raise RuntimeError(answer["failed"])
    return answer
