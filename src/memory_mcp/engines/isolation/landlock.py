"""Landlock: the Linux kernel limits which paths this process may open. Elsewhere this does nothing.

`restrict` works on the calling thread and those it starts later, so it must be called first.
"""

import ctypes
import os
import stat
import struct
import sys
from collections.abc import Iterable
from pathlib import Path

_CREATE, _ADD, _RESTRICT = 444, 445, 446  # the numbers of its three system calls, on every architecture
_VERSION = 1  # a flag: returns the version instead of creating a ruleset
_BENEATH = 1  # a rule: about a path and all below it
_NO_NEW_PRIVILEGES = 38

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_FOLDER = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_ALL_OF_VERSION_1 = (1 << 13) - 1
_REFER, _TRUNCATE, _IOCTL = 1 << 13, 1 << 14, 1 << 15
_TCP = 0b11  # bind and connect
_SCOPED = 0b11  # abstract sockets and signals
_READ_ONLY = _EXECUTE | _READ_FILE | _READ_FOLDER
_FOR_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL


def version() -> int:
    """Of the kernel's Landlock; 0 where there is none."""
    if sys.platform != "linux":
        return 0
    return max(0, int(_syscall(_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION))))


def restrict(readable: Iterable[Path], writable: Iterable[Path], *, network: bool = False) -> bool:
    """Limit this process to these paths and all below; no TCP unless `network`. False if the system cannot do it."""
    known = version()
    if not known:
        return False
    handled = _ALL_OF_VERSION_1
    handled |= (_REFER if known >= 2 else 0) | (_TRUNCATE if known >= 3 else 0) | (_IOCTL if known >= 5 else 0)
    attributes = struct.pack("QQQ", handled, _TCP if known >= 4 and not network else 0, _SCOPED if known >= 6 else 0)
    size = 24 if known >= 6 else 16 if known >= 4 else 8
    ruleset = _checked(_CREATE, attributes[:size], ctypes.c_size_t(size), ctypes.c_uint32(0))
    for path in readable:
        _allow(ruleset, path, _READ_ONLY & handled)
    for path in writable:
        _allow(ruleset, path, handled)
    if _libc().prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "no_new_privs")
    _checked(_RESTRICT, ruleset, ctypes.c_uint32(0))
    os.close(ruleset)
    return True


def _allow(ruleset: int, path: Path, access: int) -> None:
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(fd).st_mode):
            access &= _FOR_FILES
        rule = struct.pack("=Qi", access, fd)
        _checked(_ADD, ruleset, ctypes.c_int(_BENEATH), rule, ctypes.c_uint32(0))
    finally:
        os.close(fd)


def _checked(number: int, *arguments: object) -> int:
    answer = _syscall(number, *arguments)
    if answer < 0:
        raise OSError(ctypes.get_errno(), f"landlock {number}")
    return answer


def _syscall(number: int, *arguments: object) -> int:
    return int(_libc().syscall(number, *arguments))


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
