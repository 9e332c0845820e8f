"""The current time, its text forms and new ids. Tests replace the clock."""

from collections.abc import Callable
from datetime import UTC, date, datetime
from uuid import uuid4

Clock = Callable[[], datetime]


def utc_now() -> datetime:
    return datetime.now(UTC)


def stamp(moment: datetime) -> str:
    """ISO 8601 in UTC with a Z, to the second."""
    return _text(moment, "seconds")


def precise_stamp(moment: datetime) -> str:
    """The same to the millisecond, for rows that are ordered by time."""
    return _text(moment, "milliseconds")


def short_stamp(moment: datetime) -> str:
    """To the second if there are no milliseconds, else to the millisecond."""
    return stamp(moment) if moment.microsecond < 1000 else precise_stamp(moment)


def instant(text: str) -> datetime:
    """An ISO 8601 date or time, in UTC unless it names a zone. Raises ValueError for anything else."""
    try:
        found = datetime.fromisoformat(text.strip())
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    except OverflowError as exc:
        raise ValueError(text) from exc


def is_date(text: str) -> bool:
    """Whether a text is a day without a time."""
    try:
        date.fromisoformat(text.strip())
    except ValueError:
        return False
    return True


def last_instant(text: str) -> datetime:
    """The last instant of an ISO 8601 date, or the time itself where the text has one."""
    moment = instant(text)
    return moment.replace(hour=23, minute=59, second=59, microsecond=999_000) if is_date(text) else moment


def _text(moment: datetime, to_the: str) -> str:
    # Not strftime: its %Y does not pad, and these are compared as text.
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec=to_the) + "Z"


def new_id() -> str:
    return uuid4().hex
