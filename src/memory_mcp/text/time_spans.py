"""Spans of time that a request names, in ISO 8601 or in words such as `last week` or `May 2026`.

Why this is no library: docs/decisions/0022-words-for-times.md.
"""

import re
from calendar import day_name, month_name, monthrange
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from zoneinfo import ZoneInfo

from memory_mcp.clock import Clock, is_date, precise_stamp
from memory_mcp.errors import Invalid

ACCEPTED = (
    "2026-04-27, 2026-04-27T14:00:00Z, 2026-04, 2026, today, yesterday, Monday, last Monday, this week, last month, "
    "May, May 2026, May 3, 2 days ago, last 3 hours, since Monday, in May; with a zone: yesterday Europe/Berlin"
)
MAX_INSTANT = datetime.max.replace(tzinfo=UTC)
MIN_INSTANT = datetime.min.replace(tzinfo=UTC)

_DAYS = {"today": 0, "yesterday": 1, "day before yesterday": 2, "tomorrow": -1}
_NUMBERS = ("a", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_NUMBER = rf"(?P<number>\d{{1,4}}|an|{'|'.join(_NUMBERS)})"
_UNIT = r"(?P<unit>minute|hour|day|week|month|year)s?"
_MONTHS = {name.casefold()[:3]: number for number, name in enumerate(month_name) if name}
_MONTH = rf"(?P<month>{'|'.join(f'{m[:3]}(?:{m[3:]})?' for m in map(str.casefold, month_name) if m)}|sept)\.?"
_WEEKDAYS = {name.casefold()[:3]: number for number, name in enumerate(day_name)}
_WEEKDAY = rf"(?P<weekday>{'|'.join(f'{d[:3]}(?:{d[3:]})?' for d in map(str.casefold, day_name))})"
_WHICH = r"(?:(?P<which>this|last) )?"
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_YEAR = r"(?P<year>\d{4})"

_PREPOSITION = re.compile(r"(?P<word>since|from|until|till|in|during|on) (?P<rest>.+)", re.IGNORECASE)
_ZONE = re.compile(r"(?P<rest>.+?),? (?P<zone>UTC|[A-Z]\w+/[\w/+-]+)")

Bounds = tuple[datetime, datetime]
"""The first instant, and the one after the last."""


@dataclass(frozen=True)
class Span:
    """From `after` on, until just before `before`, in UTC; None: no bound."""

    after: str | None = None
    before: str | None = None

    @property
    def is_whole(self) -> bool:
        return self.after is None and self.before is None

    def __contains__(self, stamp: str) -> bool:
        return (self.after is None or stamp >= self.after) and (self.before is None or stamp < self.before)


ANY_TIME = Span()


def zone_named(name: str) -> tzinfo:
    """Raises ValueError for an unknown name."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise ValueError(f"There is no time zone {name!r}; give one such as Europe/Berlin or UTC") from None


def zone_name(name: str) -> str:
    """The name of a zone that exists. Raises ValueError."""
    zone_named(name)
    return name


class TimeReader:
    """Reads times for one server: words count from its clock, and what names no zone is in its zone."""

    def __init__(self, clock: Clock, zone: str | None = None) -> None:
        """`zone`: None is that of the system."""
        self._clock = clock
        self._zone = zone_named(zone) if zone else None

    def span(
        self, after: str | None, before: str | None, after_field: str = "after", before_field: str = "before"
    ) -> Span:
        """The span between two texts, with all of the days or months that they name. `in May`, given as one of them,
        is both bounds. Raises Invalid for a text in no accepted form, and for a span that ends before it begins."""
        start, end = self._bounds(after, after_field), self._bounds(before, before_field)
        if after is not None and start and end is None and _names_both(after):
            end = start
        if before is not None and end and start is None and _names_both(before):
            start = end
        if after is not None and _word(after) in ("until", "till"):
            raise Invalid(f"{after!r} is an end. Give it as {before_field}.", field=after_field)
        if before is not None and _word(before) in ("since", "from"):
            raise Invalid(f"{before!r} is a start. Give it as {after_field}.", field=before_field)
        if start and end and start[0] >= end[1]:
            raise Invalid(f"{before_field} is not later than {after_field}.", field=before_field)
        return Span(precise_stamp(start[0]) if start else None, precise_stamp(end[1]) if end else None)

    def _bounds(self, text: str | None, field: str) -> Bounds | None:
        if text is None:
            return None
        plain = " ".join(text.split())
        if found := _PREPOSITION.fullmatch(plain):
            plain = found["rest"]
        zone = self._zone
        if found := _ZONE.fullmatch(plain):
            try:
                plain, zone = found["rest"], zone_named(found["zone"])
            except ValueError as exc:
                raise Invalid(f"{exc}.", field=field) from None
        try:
            bounds = _Words(self._clock().astimezone(zone), zone).bounds(plain)
        except (ValueError, OverflowError):
            bounds = None
        if bounds is None:
            raise Invalid(f"{field} cannot be read as a time: {text[:64]!r}. Accepted: {ACCEPTED}.", field=field)
        return bounds


def _word(text: str) -> str | None:
    found = _PREPOSITION.fullmatch(" ".join(text.split()))
    return found["word"].casefold() if found else None


def _names_both(text: str) -> bool:
    return _word(text) in ("in", "during", "on")


@dataclass(frozen=True)
class _Words:
    """Words at one moment, in one zone; None is the system's."""

    now: datetime
    zone: tzinfo | None

    @property
    def today(self) -> date:
        return self.now.date()

    def bounds(self, text: str) -> Bounds | None:
        """None if no form fits."""
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            for pattern, form in _FORMS:
                if found := pattern.fullmatch(text.casefold()):
                    return form(self, found)
            return None
        return self.days(moment.date()) if is_date(text) else (self.instant(moment), self.instant(moment))

    def instant(self, moment: datetime) -> datetime:
        """A local time, in UTC."""
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=self.zone)
        try:
            return moment.astimezone(UTC)
        except OverflowError:
            return MIN_INSTANT if moment.year == 1 else MAX_INSTANT

    def start(self, day: date) -> datetime:
        return self.instant(datetime.combine(day, time()))

    def days(self, first: date, count: int = 1) -> Bounds:
        end = self.start(first + timedelta(days=count)) if (date.max - first).days >= count else MAX_INSTANT
        return self.start(first), end

    def month(self, first: date) -> Bounds:
        return self.days(first, monthrange(first.year, first.month)[1])

    def year(self, year: int) -> Bounds:
        first = date(year, 1, 1)
        return self.days(first, 366 if monthrange(year, 2)[1] == 29 else 365)

    # The forms

    def _named_day(self, found: re.Match[str]) -> Bounds:
        return self.days(self.today - timedelta(days=_DAYS[found["name"]]))

    def _calendar(self, found: re.Match[str]) -> Bounds:
        back = 0 if found["which"] == "this" else 1
        monday = self.today - timedelta(days=self.today.weekday() + 7 * back)
        match found["unit"]:
            case "week":
                return self.days(monday, 7)
            case "weekend":
                return self.days(monday + timedelta(days=5), 2)
            case "month":
                return self.month(_months_before(self.today.replace(day=1), back))
        return self.year(self.today.year - back)

    def _until_now(self, found: re.Match[str]) -> Bounds:
        return self._back(found)[0], self.now.astimezone(UTC)

    def _back(self, found: re.Match[str]) -> Bounds:
        """The minute or hour as long ago as it says; of longer units, the day."""
        number, unit = _number(found["number"]), found["unit"]
        if unit in ("minute", "hour"):
            at = self.now.astimezone(UTC) - timedelta(**{f"{unit}s": number})
            return at, at
        if unit in ("day", "week"):
            return self.days(self.today - timedelta(days=number * (7 if unit == "week" else 1)))
        return self.days(_months_before(self.today, number * (12 if unit == "year" else 1)))

    def _weekday(self, found: re.Match[str]) -> Bounds:
        """The latest one, which may be today unless it is the `last`; `this` is the one of this week."""
        back = (self.today.weekday() - _WEEKDAYS[found["weekday"][:3]]) % 7
        if found["which"] == "this":
            back = self.today.weekday() - _WEEKDAYS[found["weekday"][:3]]
        elif found["which"] == "last" and not back:
            back = 7
        return self.days(self.today - timedelta(days=back))

    def _named_month(self, found: re.Match[str]) -> Bounds:
        """Without a year: the latest that has begun, or with `last` the latest that is over."""
        number, year = _MONTHS[found["month"][:3]], self.today.year
        if found["year"]:
            year = int(found["year"])
        elif found["which"] != "this" and (number, found["which"] == "last") > (self.today.month, False):
            year -= 1
        return self.month(date(year, number, 1))

    def _day_of_month(self, found: re.Match[str]) -> Bounds:
        """Without a year: the latest."""
        number, day = _MONTHS[found["month"][:3]], int(found["day"])
        if found["year"]:
            return self.days(date(int(found["year"]), number, day))
        is_ahead = (number, day) > (self.today.month, self.today.day)
        return self.days(date(self.today.year - is_ahead, number, day))

    def _year(self, found: re.Match[str]) -> Bounds:
        return self.year(int(found["year"]))

    def _year_and_month(self, found: re.Match[str]) -> Bounds:
        return self.month(date(int(found["year"]), int(found["month"]), 1))

    def _now(self, found: re.Match[str]) -> Bounds:
        at = self.now.astimezone(UTC)
        return at, at


def _months_before(day: date, months: int) -> date:
    """The same day of an earlier month, or its last day if it has no such day."""
    year, month = divmod(day.year * 12 + day.month - 1 - months, 12)
    return date(year, month + 1, min(day.day, monthrange(year, month + 1)[1]))


def _number(text: str | None) -> int:
    if text is None or text == "an":
        return 1
    return int(text) if text.isdigit() else max(1, _NUMBERS.index(text))


_FORMS: list[tuple[re.Pattern[str], Callable[[_Words, re.Match[str]], Bounds]]] = [
    (re.compile(pattern, re.ASCII), form)
    for pattern, form in [
        (r"now", _Words._now),
        (rf"(?:the )?(?P<name>{'|'.join(_DAYS)})", _Words._named_day),
        (r"(?:the )?(?P<which>this|last|previous) (?P<unit>weekend|week|month|year)", _Words._calendar),
        (rf"(?:the )?(?:last|past|previous) (?:{_NUMBER} )?{_UNIT}", _Words._until_now),
        (rf"{_NUMBER} {_UNIT} ago", _Words._back),
        (rf"{_WHICH}{_WEEKDAY}", _Words._weekday),
        (rf"{_WHICH}{_MONTH}(?: {_YEAR})?", _Words._named_month),
        (rf"(?:the )?{_DAY} (?:of )?{_MONTH}(?:,? {_YEAR})?", _Words._day_of_month),
        (rf"{_MONTH} (?:the )?{_DAY}(?:,? {_YEAR})?", _Words._day_of_month),
        (_YEAR, _Words._year),
        (rf"{_YEAR}-(?P<month>\d\d)", _Words._year_and_month),
    ]
]
