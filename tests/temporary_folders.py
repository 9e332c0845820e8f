"""Where the folders of tests are: in memory, for a disk's `fsync` takes longer than most tests compute.

A soak (`make soak-tests`) uses the disk. TMPDIR overrides both.
"""

import os
import shutil
import tempfile
from pathlib import Path

from tests.exhaustive import IS_SOAK

MEMORY = Path("/dev/shm")  # noqa: S108  # a file system of Linux
MIN_FREE_BYTES = 3 * 1024**3  # a container may have as little as 64 MB


def use_memory() -> None:
    """For this process and those it starts."""
    if IS_SOAK or "TMPDIR" in os.environ or not os.access(MEMORY, os.W_OK):
        return
    if shutil.disk_usage(MEMORY).free >= MIN_FREE_BYTES:
        os.environ["TMPDIR"] = str(MEMORY)
        tempfile.tempdir = None  # what was chosen before
