"""The priority of threads and processes."""

import ctypes
import os
import platform
import struct
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pytest

from memory_mcp.system import scheduler

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Only Linux has priorities of threads")

GET_ATTRIBUTES = {"x86_64": 315, "aarch64": 275}
T = TypeVar("T")


def slice_ns(thread: int = 0) -> int:
    """0 where Linux does not report it, or for a thread that yields."""
    format_ = "=IIQiIQQQ"
    attributes = ctypes.create_string_buffer(struct.calcsize(format_))
    number = GET_ATTRIBUTES[platform.machine()]
    assert ctypes.CDLL(None).syscall(number, thread, attributes, len(attributes), 0) == 0
    return int(struct.unpack(format_, attributes.raw)[5])


def has_slices() -> bool:
    return platform.machine() in GET_ATTRIBUTES and slice_ns() > 0


def in_thread(work: Callable[[], T]) -> T:
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(work).result()


def test_the_priority_of_one_thread_is_lowered_alone() -> None:
    def lower() -> int:
        scheduler.lower_thread_priority(3)
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    before = os.getpriority(os.PRIO_PROCESS, 0)
    assert in_thread(lower) == min(before + 3, scheduler.MAX_NICENESS)
    assert os.getpriority(os.PRIO_PROCESS, 0) == before


@pytest.mark.skipif(sys.platform != "linux" or not has_slices(), reason="Linux before 6.12 has no slices to set")
def test_other_threads_replace_one_of_low_priority_as_soon_as_they_wake() -> None:
    def lower() -> int:
        scheduler.lower_thread_priority(3, has_long_slices=True)
        return slice_ns()

    before = slice_ns()
    assert in_thread(lower) == scheduler.LONG_SLICE_NS
    assert slice_ns() == before


@pytest.mark.skipif(sys.platform != "linux" or not has_slices(), reason="Linux before 6.12 has no slices to set")
def test_threads_of_a_thread_that_yields_have_long_slices_too() -> None:
    def as_parent() -> int:
        thread = threading.get_native_id()
        niceness = os.getpriority(os.PRIO_PROCESS, 0) + 1
        assert scheduler.set_priority(thread, niceness, yields=True, has_long_slices=True)
        assert os.sched_getscheduler(thread) == os.SCHED_IDLE
        return in_thread(as_child)

    def as_child() -> int:
        assert os.sched_getscheduler(0) == os.SCHED_IDLE
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))  # Linux reports the slices of such a thread
        return slice_ns()

    assert in_thread(as_parent) == scheduler.LONG_SLICE_NS
