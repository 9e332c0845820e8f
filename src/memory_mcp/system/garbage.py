"""Garbage collection of a server process, which would stop all of its threads for too long by default."""

import gc

MAX_YOUNG_OBJECTS = 5_000  # Python's default is 700, and a long query makes tens of thousands at once


def start_collection() -> None:
    """Collect from now on, and never visit what exists now: that is what was imported, and takes 100 ms."""
    gc.freeze()
    gc.set_threshold(MAX_YOUNG_OBJECTS)
    gc.enable()
