"""A seccomp filter: system calls that this process and its threads cannot make any more. Linux only.

Landlock has no rule for UDP and for Unix sockets of other programs, and before version 4 none for TCP. An engine needs
none of them once its own socket is bound, so it cannot make a socket at all.
"""

import ctypes
import errno
import os
import platform
import struct
import sys

_NO_NEW_PRIVILEGES, _SET_SECCOMP, _FILTER = 38, 22, 2  # of prctl
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06  # BPF: load a word, jump if equal, jump if >=, return
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16  # where they are in seccomp_data
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | errno.EPERM
_X32 = 0x40000000  # numbers of another calling convention of the same architecture

# Numbers that are the same everywhere.
_COMMON = {
    *(425, 426, 427),  # io_uring: reads, writes and connects past every filter
    *(424, 434, 438),  # pidfd_send_signal, pidfd_open, pidfd_getfd
}
# By machine: the architecture, the calls that are refused, and those that are refused for other processes.
_ARCHITECTURES: dict[str, tuple[int, set[int], set[int]]] = {
    "x86_64": (
        0xC000003E,
        {
            *(41, 42, 49, 53),  # socket, connect, bind, socketpair
            *(59, 322),  # execve, execveat
            *(101, 310, 311),  # ptrace, process_vm_readv, process_vm_writev
            *(62, 129, 200),  # kill, rt_sigqueueinfo, tkill
            *(165, 272, 308, 321),  # mount, unshare, setns, bpf
            *(298, 304, 323),  # perf_event_open, open_by_handle_at, userfaultfd
            *(248, 249, 250),  # add_key, request_key, keyctl
        },
        {234, 297},  # tgkill, rt_tgsigqueueinfo
    ),
    "aarch64": (
        0xC00000B7,
        {
            *(198, 203, 200, 199),
            *(221, 281),
            *(117, 270, 271),
            *(129, 138, 130),
            *(40, 97, 268, 280),
            *(241, 265, 282),
            *(217, 218, 219),
        },
        {131, 240},
    ),
}


def is_possible() -> bool:
    """Whether this kernel and architecture have seccomp filters."""
    if sys.platform != "linux" or platform.machine() not in _ARCHITECTURES:
        return False
    # There is no program at that address: EFAULT where the kernel knows filters, EINVAL or ENOSYS where it does not.
    return _prctl(_SET_SECCOMP, _FILTER, None) < 0 and ctypes.get_errno() == errno.EFAULT


def restrict() -> bool:
    """Make those calls fail with EPERM. False if the system cannot do that."""
    if not is_possible():
        return False
    program = _program(*_ARCHITECTURES[platform.machine()])
    code = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(code))
    if _prctl(_NO_NEW_PRIVILEGES, 1, 0) or _prctl(_SET_SECCOMP, _FILTER, header):
        raise OSError(ctypes.get_errno(), "seccomp")
    return True


def _program(architecture: int, refused: set[int], refused_for_others: set[int]) -> bytes:
    """`refused_for_others` are calls whose first argument is the id of a process."""
    checks = [(_EQUAL, number, 0) for number in sorted(refused | _COMMON)]
    if architecture == _ARCHITECTURES["x86_64"][0]:
        checks.append((_AT_LEAST, _X32, 0))
    checks += [(_EQUAL, number, 1) for number in sorted(refused_for_others)]
    steps = [
        _step(_LOAD, _ARCHITECTURE),
        _step(_EQUAL, architecture, 1, 0),
        _step(_RETURN, _REFUSE),
        _step(_LOAD, _NUMBER),
    ]
    for position, (jump, value, target) in enumerate(checks):
        steps.append(_step(jump, value, len(checks) - position + target, 0))
    steps += [
        _step(_RETURN, _ALLOW),
        _step(_RETURN, _REFUSE),  # target 0
        _step(_LOAD, _FIRST_ARGUMENT),  # target 1
        _step(_EQUAL, os.getpid(), 1, 0),
        _step(_RETURN, _REFUSE),
        _step(_RETURN, _ALLOW),
    ]
    return b"".join(steps)


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("HBBI", code, if_true, if_false, value)


def _prctl(option: int, first: int, second: bytes | int | None) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    third = ctypes.c_void_p(second) if second is None or isinstance(second, int) else ctypes.c_char_p(second)
    return int(libc.prctl(option, ctypes.c_ulong(first), third, 0, 0))
