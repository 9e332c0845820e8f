"""How much of the processor threads and processes get while others want it, and how soon the others get it back."""

import os
import platform
import struct
import sys
import threading

MAX_NICENESS = 19
LONG_SLICE_NS = 100_000_000  # the longest that Linux knows; usually it is 1 to 3 ms
_ATTRIBUTES = "=IIQiIQQQ"  # of a thread, for Linux: size, policy, flags, niceness, priority, runtime, deadline, period
_SET_ATTRIBUTES = {"x86_64": 314, "aarch64": 274}  # number of the system call sched_setattr, by machine


def set_priority(thread: int, niceness: int, *, yields: bool, has_long_slices: bool) -> bool:
    """Set the niceness of a process' threads, or of one thread. Whether it had another before. Raises OSError.

    One that `yields` gets only processors that no other wants (SCHED_IDLE of Linux): niceness alone shares out a
    processor over time, but lets the others wait for a few milliseconds at each of their steps.

    That is so within a session. For threads of other sessions, and for those of the kernel, which write to the disk for
    us, it counts as much as the whole session. But any thread that wakes replaces at once one that `has_long_slices`.
    """
    if os.getpriority(os.PRIO_PROCESS, thread) == niceness:
        return False
    os.setpriority(os.PRIO_PROCESS, thread, niceness)
    if sys.platform == "linux":
        os.sched_setscheduler(thread, os.SCHED_OTHER, os.sched_param(0))
        _set_slices(thread, LONG_SLICE_NS if has_long_slices else 0)
        if yields:
            os.sched_setscheduler(thread, os.SCHED_IDLE, os.sched_param(0))
    return True


def lower_thread_priority(niceness: int, *, has_long_slices: bool = False) -> None:
    """Add to the niceness of the calling thread alone, where the system knows such a thing."""
    if sys.platform == "linux":
        thread = threading.get_native_id()
        os.setpriority(os.PRIO_PROCESS, thread, min(MAX_NICENESS, os.getpriority(os.PRIO_PROCESS, 0) + niceness))
        if has_long_slices:
            _set_slices(thread, LONG_SLICE_NS)


def _set_slices(thread: int, length_ns: int) -> None:
    """Set the length of a thread's slices; 0 is the usual one. Without effect before Linux 6.12, and where a sandbox
    refuses it."""
    policy, number = os.sched_getscheduler(thread), _SET_ATTRIBUTES.get(platform.machine())
    if policy not in (os.SCHED_OTHER, os.SCHED_BATCH) or number is None:
        return
    import ctypes  # late: most commands never need it

    niceness = os.getpriority(os.PRIO_PROCESS, thread)
    attributes = struct.pack(_ATTRIBUTES, struct.calcsize(_ATTRIBUTES), policy, 0, niceness, 0, length_ns, 0, 0)
    ctypes.CDLL(None).syscall(number, thread, attributes, 0)
