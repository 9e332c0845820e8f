"""Every form of a time, read on Wednesday 18 November 2026, 14:30 in UTC."""

import time
from datetime import UTC, datetime

import pytest

from memory_mcp.errors import Invalid
from memory_mcp.text.time_spans import ACCEPTED, Span, TimeReader

NOW = datetime(2026, 11, 18, 14, 30, tzinfo=UTC)


def reader(zone: str = "UTC", now: datetime = NOW) -> TimeReader:
    return TimeReader(lambda: now, zone)


def read(text: str, zone: str = "UTC", now: datetime = NOW) -> tuple[str, str]:
    """First and last bound of what a text names, without the parts that are zero."""
    span = reader(zone, now).span(text, text)
    return _short(span.after), _short(span.before)


def _short(stamp: str | None) -> str:
    assert stamp is not None
    return stamp.removesuffix("T00:00:00.000Z").removesuffix(":00.000Z")


@pytest.mark.parametrize(
    ("text", "first", "end"),
    [
        ("today", "2026-11-18", "2026-11-19"),
        ("Yesterday", "2026-11-17", "2026-11-18"),
        ("the day before yesterday", "2026-11-16", "2026-11-17"),
        ("tomorrow", "2026-11-19", "2026-11-20"),
        ("this week", "2026-11-16", "2026-11-23"),
        ("last week", "2026-11-09", "2026-11-16"),
        ("last weekend", "2026-11-14", "2026-11-16"),
        ("this month", "2026-11-01", "2026-12-01"),
        ("last  month", "2026-10-01", "2026-11-01"),
        ("previous month", "2026-10-01", "2026-11-01"),
        ("this year", "2026-01-01", "2027-01-01"),
        ("last year", "2025-01-01", "2026-01-01"),
        ("Wednesday", "2026-11-18", "2026-11-19"),
        ("last Wednesday", "2026-11-11", "2026-11-12"),
        ("Monday", "2026-11-16", "2026-11-17"),
        ("last Monday", "2026-11-16", "2026-11-17"),
        ("fri", "2026-11-13", "2026-11-14"),
        ("this Friday", "2026-11-20", "2026-11-21"),
        ("on Friday", "2026-11-13", "2026-11-14"),
        ("May", "2026-05-01", "2026-06-01"),
        ("in May", "2026-05-01", "2026-06-01"),
        ("in November", "2026-11-01", "2026-12-01"),
        ("last November", "2025-11-01", "2025-12-01"),
        ("last May", "2026-05-01", "2026-06-01"),
        ("Dec", "2025-12-01", "2026-01-01"),
        ("this December", "2026-12-01", "2027-01-01"),
        ("May 2026", "2026-05-01", "2026-06-01"),
        ("Sept. 2024", "2024-09-01", "2024-10-01"),
        ("February 2024", "2024-02-01", "2024-03-01"),
        ("May 3", "2026-05-03", "2026-05-04"),
        ("3 May", "2026-05-03", "2026-05-04"),
        ("3rd of May 2025", "2025-05-03", "2025-05-04"),
        ("December 24", "2025-12-24", "2025-12-25"),
        ("May 3rd, 2025", "2025-05-03", "2025-05-04"),
        ("2 days ago", "2026-11-16", "2026-11-17"),
        ("two days ago", "2026-11-16", "2026-11-17"),
        ("a week ago", "2026-11-11", "2026-11-12"),
        ("3 months ago", "2026-08-18", "2026-08-19"),
        ("a year ago", "2025-11-18", "2025-11-19"),
        ("last 3 days", "2026-11-15", "2026-11-18T14:30"),
        ("the past week", "2026-11-11", "2026-11-18T14:30"),
        ("last 3 hours", "2026-11-18T11:30", "2026-11-18T14:30"),
        ("last hour", "2026-11-18T13:30", "2026-11-18T14:30"),
        ("2026", "2026-01-01", "2027-01-01"),
        ("2026-05", "2026-05-01", "2026-06-01"),
        ("2026-05-03", "2026-05-03", "2026-05-04"),
        ("9999-12-31", "9999-12-31", "9999-12-31T23:59:59.999Z"),
    ],
)
def test_words_name_a_span(text: str, first: str, end: str) -> None:
    assert read(text) == (first, end)


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("since Monday", "2026-11-16"),
        ("since yesterday", "2026-11-17"),
        ("from May", "2026-05-01"),
        ("30 minutes ago", "2026-11-18T14"),
        ("an hour ago", "2026-11-18T13:30"),
        ("now", "2026-11-18T14:30"),
        ("2026-05-03T10:00:00+02:00", "2026-05-03T08"),
        ("2026-05-03T10:00Z", "2026-05-03T10"),
    ],
)
def test_words_name_a_start(text: str, start: str) -> None:
    span = reader().span(text, None)
    assert (_short(span.after).removesuffix(":00"), span.before) == (start, None)


def test_a_containing_word_is_both_bounds() -> None:
    may = Span("2026-05-01T00:00:00.000Z", "2026-06-01T00:00:00.000Z")
    assert reader().span("in May", None) == may
    assert reader().span(None, "during May") == may
    assert reader().span("in May", "yesterday").before == "2026-11-18T00:00:00.000Z"
    assert reader().span("May", None).before is None
    assert reader().span(None, "until May") == Span(None, may.before)
    assert reader().span(None, None).is_whole


def test_a_time_without_a_zone_is_in_the_servers_zone() -> None:
    late = datetime(2026, 11, 18, 23, 30, tzinfo=UTC)  # 08:30 on the 19th in Tokyo
    assert read("today", "Asia/Tokyo", late) == ("2026-11-18T15:00", "2026-11-19T15:00")
    assert read("today Asia/Tokyo", "UTC", late) == ("2026-11-18T15:00", "2026-11-19T15:00")
    assert read("today, UTC", "Asia/Tokyo", late) == ("2026-11-18", "2026-11-19")
    assert read("2026-05-03", "Europe/Berlin") == ("2026-05-02T22:00", "2026-05-03T22:00")
    assert _short(reader("Europe/Berlin").span("2026-05-03T10:00", None).after) == "2026-05-03T08:00"
    assert _short(reader("Europe/Berlin").span("2026-05-03T10:00Z", None).after) == "2026-05-03T10:00"


def test_a_day_on_which_the_clocks_change_has_its_own_length() -> None:
    assert read("2026-10-25", "Europe/Berlin") == ("2026-10-24T22:00", "2026-10-25T23:00")
    assert read("March 2026", "Europe/Berlin") == ("2026-02-28T23:00", "2026-03-31T22:00")


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="the zone of this system cannot be set")
def test_without_a_zone_that_of_the_system_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        span = TimeReader(lambda: NOW).span("today", "today")
    finally:
        monkeypatch.undo()
        time.tzset()
    assert span == Span("2026-11-17T15:00:00.000Z", "2026-11-18T15:00:00.000Z")


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "long ago",
        "Q2 2026",
        "2026-13",
        "2026-02-30",
        "February 30",
        "32 May",
        "10",
        "last summer",
        "9999 years ago",
    ],
)
def test_other_words_are_refused_with_the_accepted_forms(text: str) -> None:
    for given in ((text, None), (None, text)):
        with pytest.raises(Invalid) as refused:
            reader().span(*given)
        assert ACCEPTED in refused.value.message


def test_bounds_that_do_not_fit_each_other_are_refused() -> None:
    for after, before in (("today", "yesterday"), ("until Monday", None), (None, "since Monday")):
        with pytest.raises(Invalid):
            reader().span(after, before)
    with pytest.raises(Invalid, match="Mars/Base"):
        reader().span("today Mars/Base", None)
    with pytest.raises(ValueError, match="nowhere"):
        TimeReader(lambda: NOW, "nowhere")


def test_every_accepted_form_that_is_shown_is_accepted() -> None:
    for form in ACCEPTED.replace("; with a zone:", ",").split(", "):
        assert reader().span(form, None).after is not None, form
