"""Time and identity, as values a test can replace."""

from collections.abc import Callable
from datetime import UTC, datetime
from uuid import uuid4

Clock = Callable[[], datetime]


def utc_now() -> datetime:
    return datetime.now(UTC)


def stamp(instant: datetime) -> str:
    """ISO 8601 in UTC with a Z, to the second: the one form in which times are stored and shown."""
    # Not strftime: its %Y does not pad, and these are compared as text.
    return instant.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="seconds") + "Z"


def new_id() -> str:
    return uuid4().hex
