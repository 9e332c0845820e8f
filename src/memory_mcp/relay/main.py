"""Serves a client over stdio as a relay."""

import os
from collections.abc import Callable

from memory_mcp.relay.options import MARKER, NotShared, RelayOptions
from memory_mcp.relay.pump import Pump


def run(arguments: list[str], check: Callable[[list[str]], int]) -> int:
    """Serve the client through the shared server. Returns the exit code. Raises NotShared before anything was read.

    `check` returns an exit code for invalid arguments, else 0. It is slow, and called if there is no data directory
    yet: a mistake must not create one, nor write into a folder of other files.
    """
    if os.getpid() == 1:
        raise NotShared("this is the first process of a container, which ends with it")
    options = RelayOptions(arguments, dict(os.environ))
    if not os.path.exists(os.path.join(options.data_dir, MARKER)) and (code := check(arguments)):
        return code
    pump = Pump(options, client_in=0, client_out=1)
    pump.connect()
    return pump.run()
