"""The sync thread: when it syncs which user, and its backoff."""

from typing import cast

from memory_mcp.changes import Change
from memory_mcp.errors import Unavailable
from memory_mcp.services.sync.node import Sync
from memory_mcp.services.sync.worker import SyncWorker


class Failing:
    """A hub that does not answer."""

    def is_needed(self, user: str, since: str) -> bool:
        raise Unavailable("away")


def worker(linked: list[str]) -> SyncWorker:
    return SyncWorker(cast(Sync, Failing()), lambda: linked, 10.0)


def test_an_unlinked_user_is_dropped() -> None:
    linked = ["ann", "bob"]
    syncing = worker(linked)
    syncing._delay("ann", 0.0)
    syncing._delay("bob", 5.0)
    linked.remove("ann")
    syncing._drop_unlinked(linked)
    assert 4 < syncing._pause() <= 5


def test_a_user_without_a_hub_delays_no_other_user() -> None:
    syncing = worker(["bob"])
    syncing._delay("bob", 1.0)
    syncing.on_change(Change("ann", ("memory://recent",)))
    syncing._drop_unlinked(["bob"])
    assert syncing._pause() <= 1


def test_after_a_failure_only_try_again_skips_the_backoff() -> None:
    syncing = worker(["ann"])
    syncing._exchange("ann")
    syncing._due["ann"] += 100
    syncing.wake("ann")
    assert not syncing._is_due("ann")
    assert syncing._pause() > 5
    syncing.try_again("ann")
    assert syncing._pause() <= 0.5
