"""Files that are uploaded piece by piece."""

import base64
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from memory_mcp.engines.files import uploads
from memory_mcp.errors import Conflict, Invalid


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def test_pieces_follow_each_other_and_one_that_comes_twice_counts_once(tmp_path: Path) -> None:
    for offset, data in ((0, b"id,a\n"), (5, b"1,2\n"), (5, b"1,2\n")):
        stored = uploads.add(tmp_path, "x.csv", offset, encoded(data), max_bytes=100)
    assert stored == 9
    assert (tmp_path / "uploads" / "x.csv").read_bytes() == b"id,a\n1,2\n"
    with pytest.raises(Conflict, match="9 bytes are here"):
        uploads.add(tmp_path, "x.csv", 20, encoded(b"y"), max_bytes=100)
    uploads.add(tmp_path, "x.csv", 0, encoded(b"again"), max_bytes=100)
    assert (tmp_path / "uploads" / "x.csv").read_bytes() == b"again"


def test_a_piece_that_is_too_large_or_no_base64_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Invalid) as refused:
        uploads.add(tmp_path, "x.csv", 95, encoded(b"123456"), max_bytes=100)
    assert refused.value.code == "too_large"
    with pytest.raises(Invalid, match="base64"):
        uploads.add(tmp_path, "x.csv", 0, "???", max_bytes=100)


def test_nothing_outside_the_folder_is_written(tmp_path: Path) -> None:
    outside, imports = tmp_path / "outside", tmp_path / "imports"
    outside.mkdir()
    imports.mkdir()
    (outside / "secret").write_text("secret")
    (imports / "uploads").symlink_to(outside)
    with pytest.raises(Invalid):
        uploads.add(imports, "secret", 0, encoded(b"gone"), max_bytes=100)
    assert (outside / "secret").read_text() == "secret"


def test_abandoned_files_are_deleted(tmp_path: Path) -> None:
    uploads.add(tmp_path, "old", 0, encoded(b"1"), max_bytes=100)
    long_ago = time.time() - uploads.MAX_AGE_S - 1
    os.utime(tmp_path / "uploads" / "old", (long_ago, long_ago))
    uploads.add(tmp_path, "new", 0, encoded(b"1"), max_bytes=100)
    assert [path.name for path in (tmp_path / "uploads").iterdir()] == ["new"]


def test_only_so_many_uploads_wait_at_a_time_and_those_under_way_go_on(tmp_path: Path) -> None:
    for number in range(uploads.MAX_UPLOADS_PER_USER):
        uploads.add(tmp_path, f"{number}.csv", 0, encoded(b"1"), max_bytes=100)
    with pytest.raises(Conflict, match="10 uploads are not imported yet"):
        uploads.add(tmp_path, "one-more.csv", 0, encoded(b"1"), max_bytes=100)
    assert not (tmp_path / "uploads" / "one-more.csv").exists()
    uploads.add(tmp_path, "3.csv", 1, encoded(b"2"), max_bytes=100)
    uploads.delete(tmp_path, "uploads/4.csv")
    uploads.delete(tmp_path, "uploads/../uploads/5.csv")  # is no upload's name
    uploads.add(tmp_path, "one-more.csv", 0, encoded(b"1"), max_bytes=100)
    assert len(list((tmp_path / "uploads").iterdir())) == uploads.MAX_UPLOADS_PER_USER


def test_idle_uploads_are_deleted_oldest_first(tmp_path: Path) -> None:
    for number in range(uploads.MAX_UPLOADS_PER_USER):
        uploads.add(tmp_path, f"{number}.csv", 0, encoded(b"1" * 20), max_bytes=100)
    for number in (7, 3):  # refused, or left alone
        last_piece = time.time() - uploads.MIN_IDLE_S - number
        os.utime(tmp_path / "uploads" / f"{number}.csv", (last_piece, last_piece))
    uploads.add(tmp_path, "new.csv", 0, encoded(b"1"), max_bytes=100)
    there = {path.name for path in (tmp_path / "uploads").iterdir()}
    assert len(there) == uploads.MAX_UPLOADS_PER_USER
    assert "new.csv" in there
    assert "7.csv" not in there
    assert "3.csv" in there
    uploads.add(
        tmp_path, "new.csv", 1, encoded(b"1" * 19), max_bytes=100
    )  # 200 bytes together, as many as there may be
    uploads.add(tmp_path, "new.csv", 20, encoded(b"1"), max_bytes=100)
    assert not (tmp_path / "uploads" / "3.csv").exists()
    uploads.add(tmp_path, "newer.csv", 0, encoded(b"1"), max_bytes=100)
    with pytest.raises(Conflict, match="try again in 60 seconds"):
        uploads.add(tmp_path, "newest.csv", 0, encoded(b"1"), max_bytes=100)


def test_the_bounds_of_uploads_hold_for_many_at_once(tmp_path: Path) -> None:
    """Each call opens the lock by itself, as another process would."""

    def add(number: int) -> bool:
        try:
            uploads.add(tmp_path, f"{number}.csv", 0, encoded(b"x" * 100), 300)
        except Conflict:
            return False
        return True

    with ThreadPoolExecutor(16) as threads:
        added = sum(threads.map(add, range(64)))
    files = list((tmp_path / "uploads").iterdir())
    assert added == len(files) == 300 * uploads.MAX_TOTAL_FACTOR // 100


def test_uploads_together_may_be_twice_as_large_as_one(tmp_path: Path) -> None:
    for name in ("a", "b"):
        uploads.add(tmp_path, name, 0, encoded(b"x" * 90), max_bytes=100)
    with pytest.raises(Conflict, match="too much"):
        uploads.add(tmp_path, "c", 0, encoded(b"x" * 30), max_bytes=100)
    uploads.add(tmp_path, "c", 0, encoded(b"x" * 20), max_bytes=100)
