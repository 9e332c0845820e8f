"""Whether a file is still the one that was read, from its status alone."""

import os

Signature = tuple[int, int, int]
"""Identifies one state of a file: its time in nanoseconds, its size, its inode."""

UNSETTLED: Signature = (0, 0, 0)
"""The signature of a file that changed just now: a further change may not show in its time."""

SETTLED_NS = 50_000_000  # after a change; a further one must then show in the file's time


def signature_of(status: os.stat_result) -> Signature:
    return status.st_mtime_ns, status.st_size, status.st_ino
