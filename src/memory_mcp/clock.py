"""Time and identity, as values a test can replace."""

from collections.abc import Callable
from datetime import UTC, datetime
from uuid import uuid4

Clock = Callable[[], datetime]


def utc_now() -> datetime:
    return datetime.now(UTC)


def stamp(instant: datetime) -> str:
    """ISO 8601 in UTC with a Z, to the second."""
    return _text(instant, "seconds")


def precise_stamp(instant: datetime) -> str:
    """The same to the millisecond, for what is ordered by when it happened."""
    return _text(instant, "milliseconds")


def _text(instant: datetime, to_the: str) -> str:
    # Not strftime: its %Y does not pad, and these are compared as text.
    return instant.astimezone(UTC).replace(tzinfo=None).isoformat(timespec=to_the) + "Z"


def new_id() -> str:
    return uuid4().hex
