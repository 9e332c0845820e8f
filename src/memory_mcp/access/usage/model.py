from dataclasses import dataclass


@dataclass(frozen=True)
class Coverage:
    """How many notes there are, and how many of them can be found by meaning."""

    notes: int
    embedded: int


@dataclass(frozen=True)
class Hour:
    hour: str  # its start
    calls: int
    errors: int
    notes: int | None  # None: nobody looked in this hour
    embedded: int | None
