"""`memory-mcp` as it runs on Windows, as far as another system can show it: the POSIX parts are missing.

`python -m tests.as_on_windows ARGUMENTS`
"""

import asyncio  # noqa: F401  # these decide when they are imported which system this is
import os
import shutil  # noqa: F401
import signal
import sys
import tempfile  # noqa: F401

import platformdirs  # noqa: F401

from memory_mcp.__main__ import main
from memory_mcp.engines.files import lock, rooted_folder
from memory_mcp.system import operating_system

MISSING = {
    os: ("O_CLOEXEC", "O_NOFOLLOW", "O_DIRECTORY", "geteuid", "getuid", "pidfd_open", "set_blocking"),
    signal: ("SIGHUP", "SIGKILL", "SIGPIPE"),
}

if __name__ == "__main__":
    operating_system.THIS = operating_system.OperatingSystem("windows", has_unix_sockets=False)
    vars(lock)["fcntl"] = None
    sys.modules["resource"] = None  # type: ignore[assignment]  # importing it fails
    rooted_folder.HAS_DIR_FD = False
    for module, names in MISSING.items():
        for name in names:
            if hasattr(module, name):
                delattr(module, name)
    main(sys.argv[1:])
