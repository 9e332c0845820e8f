"""What differs between Linux, macOS and Windows, as rules that tests can try for each of them.

Not here: locks (engines/files/lock.py), paths that stay inside a folder (engines/files/rooted_folder.py), features of
Linux's kernel (engines/isolation/, engines/files/rename.py), and chDB, which Windows does not have.
"""

import os
import re
import socket
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

SystemName = Literal["linux", "macos", "windows"]

# Flags of os.open that not every system has. Files are never inherited: Python sees to that by itself.
O_BINARY: int = getattr(os, "O_BINARY", 0)
O_DIRECTORY: int = getattr(os, "O_DIRECTORY", 0)
O_NOFOLLOW: int = getattr(os, "O_NOFOLLOW", 0)
O_NONBLOCK: int = getattr(os, "O_NONBLOCK", 0)

MAX_NICENESS = 19
DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
DETACHED_PROCESS, CREATE_NEW_PROCESS_GROUP = 0x8, 0x200  # of Windows; `subprocess` has them only there


class OperatingSystem(NamedTuple):
    name: SystemName
    has_unix_sockets: bool

    @property
    def is_posix(self) -> bool:
        return self.name != "windows"

    @property
    def has_permissions(self) -> bool:
        """Whether files have an owner and a mode. On Windows the user's folders are private already."""
        return self.is_posix

    @property
    def can_sync_folders(self) -> bool:
        """Whether a folder can be opened, to make changes of its names survive a power cut."""
        return self.is_posix

    @property
    def can_poll_pipes(self) -> bool:
        """Whether an event loop can wait for a pipe. Elsewhere a thread reads it."""
        return self.is_posix

    def is_relative(self, path: str) -> bool:
        """Whether a path with '/' between its parts starts at no root or drive. On POSIX, C:\\x is a file's name."""
        return not path.startswith("/") and (self.is_posix or not re.search(r"[\\:]", path))

    def is_file_name(self, name: str) -> bool:
        """Whether a file can have this name, which has no '/'."""
        return self.is_posix or not re.search(r'[<>:"|?*\\]', name)

    def program_name(self, name: str) -> str:
        return name if self.is_posix else f"{name}.exe"

    def has_display(self, environ: Mapping[str, str]) -> bool:
        """Whether a browser with windows can be shown."""
        return self.name != "linux" or any(environ.get(name) for name in DISPLAYS)

    @property
    def background_options(self) -> dict[str, Any]:
        """Options of `subprocess.Popen` for a process that outlives this terminal."""
        if self.is_posix:
            return {"start_new_session": True}
        return {"creationflags": DETACHED_PROCESS | CREATE_NEW_PROCESS_GROUP}


def current() -> OperatingSystem:
    names: dict[str, SystemName] = {"win32": "windows", "darwin": "macos"}
    return OperatingSystem(names.get(sys.platform, "linux"), hasattr(socket, "AF_UNIX"))


THIS = current()


def process_age_s() -> float:
    """How long ago this process was started; 0 where the system has no such figure."""
    if sys.platform != "linux":
        return 0.0
    try:
        with open("/proc/self/stat", "rb") as file:  # noqa: PTH123  # pathlib takes long to import, and hooks are fast
            started_ticks = int(file.read().rpartition(b")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return 0.0
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started_ticks / os.sysconf("SC_CLK_TCK")


def set_priority(thread: int, niceness: int, *, yields: bool) -> bool:
    """Set the niceness of a process' threads, or of one thread. Whether it had another before. Raises OSError.

    One that `yields` gets only processors that no other wants (SCHED_IDLE of Linux): niceness alone shares out a
    processor over time, but lets the others wait for a few milliseconds at each of their steps.
    """
    if os.getpriority(os.PRIO_PROCESS, thread) == niceness:
        return False
    os.setpriority(os.PRIO_PROCESS, thread, niceness)
    if sys.platform == "linux":
        os.sched_setscheduler(thread, os.SCHED_IDLE if yields else os.SCHED_OTHER, os.sched_param(0))
    return True


def lower_thread_priority(niceness: int) -> None:
    """Add to the niceness of the calling thread alone, where the system knows such a thing."""
    if sys.platform == "linux":
        total = min(MAX_NICENESS, os.getpriority(os.PRIO_PROCESS, 0) + niceness)
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), total)


def release_free_memory() -> None:
    """Return to the system what the C library has free. glibc keeps it in a heap for every few threads: tens of MB
    after many calls at once. Other threads go on meanwhile."""
    import ctypes  # hooks, which need to be fast, do without

    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:  # musl has none
        trim(0)
