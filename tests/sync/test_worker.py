"""The thread that syncs: whom it waits for, and for how long."""

from typing import cast

from memory_mcp.changes import Change
from memory_mcp.errors import Unavailable
from memory_mcp.sync.node import Sync
from memory_mcp.sync.worker import SyncWorker


class Failing:
    """A hub that is away."""

    def is_needed(self, user: str, since: str) -> bool:
        raise Unavailable("away")


def worker(linked: list[str]) -> SyncWorker:
    return SyncWorker(cast(Sync, Failing()), lambda: linked, 10.0)


def test_whoever_is_linked_no_more_wakes_nobody() -> None:
    linked = ["ann", "bob"]
    syncing = worker(linked)
    syncing._put_off("ann", 0.0)
    syncing._put_off("bob", 5.0)
    linked.remove("ann")
    syncing._forget_all_but(linked)
    assert 4 < syncing._pause() <= 5


def test_who_never_linked_a_hub_makes_nobody_else_late() -> None:
    syncing = worker(["bob"])
    syncing._put_off("bob", 1.0)
    syncing.follow(Change("ann", ("memory://recent",)))
    syncing._forget_all_but(["bob"])
    assert syncing._pause() <= 1


def test_after_a_failure_only_what_may_be_mended_is_tried_at_once() -> None:
    syncing = worker(["ann"])
    syncing._exchange("ann")
    syncing._due["ann"] += 100
    syncing.wake("ann")
    assert not syncing._is_due("ann")
    assert syncing._pause() > 5
    syncing.try_again("ann")
    assert syncing._pause() <= 0.5
