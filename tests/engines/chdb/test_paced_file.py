"""Exports are written at a limited rate, whole or not at all."""

import errno
import os
from pathlib import Path

import pytest

from memory_mcp.engines.chdb import paced_file
from memory_mcp.engines.chdb.paced_file import CHUNK_BYTES, MAX_BURST_BYTES, WriteRate, open_paced

CONTENT = os.urandom(3 * CHUNK_BYTES + 17)


def write(path: str, content: bytes) -> None:
    with open(path, "wb", buffering=0) as file:  # noqa: PTH123  # as chDB does, without a Path
        file.write(content)


def test_beyond_a_burst_bytes_wait() -> None:
    now = [100.0]
    rate = WriteRate(lambda: now[0])
    assert rate.delay_s(MAX_BURST_BYTES, 1000) == 0
    assert [round(rate.delay_s(1000, 1000)) for _ in range(3)] == [1, 2, 3]
    now[0] += 3 + MAX_BURST_BYTES / 1000
    assert rate.delay_s(MAX_BURST_BYTES, 1000) == 0


def test_the_file_has_every_byte_when_the_block_ends(tmp_path: Path) -> None:
    pieces: list[int] = []

    def delay_s(count: int) -> float:
        pieces.append(count)
        return 0.0

    path = tmp_path / "export.csv"
    with open_paced(str(path), delay_s, lambda: True) as target:
        write(target, CONTENT)
    assert path.read_bytes() == CONTENT
    assert path.stat().st_mode & 0o777 == 0o600
    assert sum(pieces) == len(CONTENT)


def test_what_is_no_longer_wanted_is_discarded_without_a_delay(tmp_path: Path) -> None:
    path = tmp_path / "export.csv"
    with open_paced(str(path), lambda _: 1 / 0, lambda: False) as target:
        write(target, CONTENT)
    assert path.read_bytes() == b""


def test_a_full_disk_is_reported_after_the_writer_has_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(paced_file, "_append", fail)
    with (
        pytest.raises(OSError, match="No space"),
        open_paced(str(tmp_path / "x"), lambda _: 0.0, lambda: True) as target,
    ):
        write(target, CONTENT)
