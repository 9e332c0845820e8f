"""The same world as in test_convergence, in random stories. Hypothesis shrinks failures; these find more."""

import os
import random
from typing import Any

import pytest

from tests.exhaustive import rounds
from tests.services.sync.test_convergence import Syncing
from tests.services.sync.world import PRIVATE, SYNCED

STORIES = int(os.environ.get("MEMORY_MCP_SYNC_EXAMPLES", rounds(20, soak=40)))
FIRST = int(os.environ.get("MEMORY_MCP_SYNC_SEED", "0"))
TITLES = ["Alpha", "Beta", "Gamma", None]
CONTENTS = ["Plain", "See [[Alpha]] #x", "See [[Beta]] and [[alpha]]", "Gamma\n[[Gamma]] #Y", "Alpha"]
TAGS = ["x", "X", "y", "z", "ns/one"]
FAULTS = ["request lost", "answer lost", "request sent twice", "request received twice"]
HOW_OFTEN = {
    "create": 12,
    "revise": 28,
    "archive": 6,
    "delete": 4,
    "read": 2,
    "relate": 8,
    "exchange": 28,
    "exchange_all": 6,
    "wait": 2,
    "clock_jumps": 2,
    "configure": 4,
    "clone": 1,
    "back_up": 2,
    "back_up_the_hub": 1,
    "restore": 2,
    "attack": 3,
}
ATTACKS = ["overwrite", "move", "delete", "strip", "link", "supersede"]


@pytest.mark.parametrize("seed", range(FIRST, FIRST + STORIES))
def test_random_stories_end_with_the_same_notes_everywhere(seed: int) -> None:
    dice = random.Random(seed)
    syncing = Syncing()
    try:
        syncing.begin(sealed=seed % 3 == 0)
        for _ in range(dice.choice([15, 30, 50])):
            _happen(syncing, dice)
    except BaseException:
        syncing.world.close()
        raise
    syncing.teardown()


def _happen(syncing: Syncing, dice: random.Random) -> None:
    [what] = dice.choices([*HOW_OFTEN], [*HOW_OFTEN.values()])
    if (what == "clone" and len(syncing.world.nodes) == 5) or (what == "restore" and not syncing.copies):
        return
    getattr(syncing, what)(**_words(what, dice))


def _words(what: str, dice: random.Random) -> dict[str, Any]:
    n, i, j = (dice.randrange(10) for _ in range(3))
    every: dict[str, Any] = {
        "create": {
            "n": n,
            "title": dice.choice(TITLES),
            "content": dice.choice(CONTENTS),
            "namespace": dice.choice(["one", *SYNCED, PRIVATE]),
        },
        "revise": {"n": n, "i": i, "changes": _changes(dice)},
        "relate": {
            "n": n,
            "i": i,
            "j": j,
            "how": dice.choice(["link", "unlink", "supersede"]),
            "both": dice.random() < 0.3,
        },
        "exchange": {"n": n, "size": dice.choice([1, 2, 3, 200]), "faults": _faults(dice)},
        "wait": {"n": n, "ms": dice.choice([1, 500, 61_000, 3_600_000])},
        "clock_jumps": {"n": n, "ms": dice.choice([-3_600_000, -61_000, -700, 300, 59_000, 3_600_000])},
        "configure": {
            "n": n,
            "namespace": dice.choice(SYNCED),
            "verb": dice.choice(["disable", "enable", "resync", "clear_state"]),
        },
        "restore": {"c": n, "after_exchange": dice.random() < 0.7},
        "attack": {
            "n": n,
            "i": i,
            "j": j,
            "kind": dice.choice(ATTACKS),
            "namespace": dice.choice([*SYNCED, PRIVATE]),
        },
        "exchange_all": {},
        "back_up_the_hub": {},
        "clone": {"n": n},
        "back_up": {"n": n},
    }
    words: dict[str, Any] = every.get(what, {"n": n, "i": i})
    return words


def _changes(dice: random.Random) -> dict[str, Any]:
    return dice.choice(
        [
            {"content": dice.choice(CONTENTS)},
            {"title": dice.choice(TITLES)},
            {"folder": dice.choice(["", "a", "b/c"])},
            {"add_tags": (dice.choice(TAGS),)},
            {"remove_tags": (dice.choice(TAGS),)},
            {"remove_tags": ("archived",)},
            {"metadata_patch": {dice.choice("kl"): dice.choice([None, 1, True, 1.5, "v", {"a": []}])}},
            {"importance": dice.choice([0.0, 0.2, 0.9, 1.0])},
            {"expires_at": dice.choice(["", "2040-01-01T00:00:00.000Z"])},
            {"namespace": dice.choice([*SYNCED, PRIVATE])},
        ]
    )


def _faults(dice: random.Random) -> dict[str, str]:
    return {f"at_{dice.randrange(1, 5)}": dice.choice(FAULTS)} if dice.random() < 0.4 else {}
