"""Data directories that are deleted, moved and begun again while engines of theirs run."""

import os
import select
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.families.portals.processes import ENV, engine_handle
from tests.wire import Stdio

PORTAL = "mem://tests/shared"


def start(data_dir: Path) -> Stdio:
    return Stdio.start(data_dir, "--families", "portals", env=ENV)


def delete(folder: Path) -> None:
    """At one moment: an engine may remove files of its own meanwhile."""
    gone = folder.rename(folder.with_name(f"{folder.name[:8]} deleted"))
    shutil.rmtree(gone, ignore_errors=True)


def write(server: Stdio, number: int) -> dict[str, Any]:
    return server.call("portal_write", portalUri=PORTAL, table="t", data=[{"n": number}])


def numbers(server: Stdio) -> list[int]:
    rows = server.call("portal_query", portalUri=PORTAL, sql="SELECT n FROM t ORDER BY n")["rows"]
    return [row["n"] for row in rows]


def engine(data_dir: Path) -> int:
    return engine_handle(data_dir / "portals" / "tests" / "shared")


def has_ended(handle: int) -> bool:
    return bool(select.select([handle], [], [], 20)[0])


@pytest.mark.parametrize("leave", [Stdio.close, Stdio.kill])
@pytest.mark.parametrize("length", ["short", "long"])
def test_a_directory_that_was_deleted_and_begun_again_works_at_once(
    tmp_path: Path, leave: Callable[[Stdio], object], length: str
) -> None:
    """The socket of a long path lies elsewhere, under a name made of the path."""
    data_dir = tmp_path / ("data" if length == "short" else "long" * 30)
    old = start(data_dir)
    write(old, 1)
    former = engine(data_dir)
    leave(old)
    delete(data_dir)
    new = start(data_dir)
    assert write(new, 2)["written"] == 1
    assert numbers(new) == [2]
    assert has_ended(former)
    write(new, 3)
    assert numbers(new) == [2, 3]
    new.close()
    delete(data_dir)  # its engine ends, too
    os.close(former)


def test_a_server_of_a_deleted_directory_serves_its_replacement(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    old = start(data_dir)
    write(old, 1)
    delete(data_dir)
    new = start(data_dir)
    write(new, 2)
    assert numbers(old) == [2]
    write(old, 3)
    assert numbers(new) == numbers(old) == [2, 3]
    last = engine(data_dir)
    delete(data_dir)
    answer = old.call("portal_query", portalUri=PORTAL, sql="SELECT n FROM t")
    assert answer["error"] == "not_found"
    assert has_ended(last)
    os.close(last)
    for server in (old, new):
        server.kill()


def test_a_moved_directory_and_the_one_in_its_place_are_two(tmp_path: Path) -> None:
    place, moved = tmp_path / "data", tmp_path / "moved"
    old = start(place)
    write(old, 1)
    old.close()
    place.rename(moved)
    new = start(place)
    write(new, 2)
    other = start(moved)
    assert numbers(other) == [1]
    write(other, 3)
    assert (numbers(other), numbers(new)) == ([1, 3], [2])
    for server in (new, other):
        server.close()
    for folder in (place, moved):
        delete(folder)
