"""Serves a client over stdio as a relay."""

import os

from memory_mcp.relay.options import NotShared, RelayOptions
from memory_mcp.relay.pump import Pump


def run(arguments: list[str]) -> int:
    """Serve the client through the shared server. Returns the exit code. Raises NotShared before anything was read."""
    if os.getpid() == 1:
        raise NotShared("this is the first process of a container, which ends with it")
    pump = Pump(RelayOptions(arguments, dict(os.environ)), client_in=0, client_out=1)
    pump.connect()
    return pump.run()
