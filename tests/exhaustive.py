"""How much a test tries: a sample of what is exhaustive, or all of it in a soak (`make soak-tests`)."""

import os
from collections.abc import Sequence
from typing import TypeVar

IS_SOAK = bool(os.environ.get("MEMORY_MCP_SOAK"))

Case = TypeVar("Case")


def rounds(usual: int, soak: int) -> int:
    return soak if IS_SOAK else usual


def sample(cases: Sequence[Case], every: int) -> list[Case]:
    """Each case in a soak; else the first and every n-th after it."""
    return list(cases[:: 1 if IS_SOAK else every])
