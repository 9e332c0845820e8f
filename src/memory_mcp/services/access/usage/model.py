from dataclasses import dataclass


@dataclass(frozen=True)
class Coverage:
    """How many notes there are, and how many of them have a vector."""

    notes: int
    embedded: int


@dataclass(frozen=True)
class Hour:
    hour: str  # its start
    calls: int
    errors: int
    notes: int | None  # None: not counted in this hour
    embedded: int | None
