"""Memory of a server process: its garbage collection, which would stop all of its threads for too long by default, and
what the C library keeps."""

import ctypes
import gc
import sys

MAX_YOUNG_OBJECTS = 5_000  # Python's default is 700, and a long query makes tens of thousands at once


def start_collection() -> None:
    """Collect from now on, and never visit what exists now: that is what was imported, and takes 100 ms."""
    gc.freeze()
    gc.set_threshold(MAX_YOUNG_OBJECTS)
    gc.enable()


def release_free_memory() -> None:
    """Return to the system what the C library has free. glibc keeps it in a heap for every few threads: tens of MB
    after many calls at once. Other threads go on meanwhile."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:  # musl has none
        trim(0)
