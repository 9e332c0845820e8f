"""The rows in which servers are compared, and the rule: a peer that keeps what it acknowledges is ahead of ours in no
row, unless docs/benchmarks.md has an excuse with a reason."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from benchmarks.peers.facts import Form
from benchmarks.peers.results import Result, Spread

MIN_LEAD = 0.05  # of our figure: less is no lead
MIN_HITS = 0.9  # of ours: the time of searches that find less is no lead
EXCUSES = "### Where a peer may be ahead"
EVERY_PEER = "every peer"
_EXCUSE = re.compile(r"^\| *([^|]+?) *\| *([^|]+?) *\| *([^|]+?) *\|$", re.MULTILINE)

Figure = Spread | float | None


@dataclass(frozen=True)
class Row:
    label: str
    figure: Callable[[Result], Figure]
    is_less_better: bool = True
    form: Form | None = None
    """Of the searches that it is the time of."""
    is_by_clock: bool = False


@dataclass(frozen=True)
class Lead:
    """A peer that is ahead of ours."""

    row: str
    peer: str
    theirs: float
    ours: float


def rows() -> Iterator[Row]:
    yield Row("start to tools/list", lambda result: result.start_s, is_by_clock=True)
    yield Row("start to first answer", lambda result: result.first_answer_s, is_by_clock=True)
    yield Row("start of a second client", lambda result: result.second_client_s, is_by_clock=True)
    yield Row("tokens of tools/list", lambda result: result.tools_tokens)
    yield Row("write, p50", lambda result: result.writes.p50_s if result.writes else None, is_by_clock=True)
    yield Row("write, CPU", lambda result: result.writes.cpu_s if result.writes else None)
    for form in Form:
        yield from _search_rows(form)
    yield Row("memory", lambda result: result.memory_bytes)
    yield Row("disk", _disk_bytes_each)
    yield Row(
        "two clients, kept",
        lambda result: result.two_clients.kept if result.two_clients else None,
        is_less_better=False,
    )
    yield Row("LoCoMo by ids", lambda result: result.recall.by_id if result.recall else None, is_less_better=False)
    yield Row("LoCoMo by text", lambda result: result.recall.by_text if result.recall else None, is_less_better=False)


def _disk_bytes_each(result: Result) -> Figure:
    """Of a write: a slow server has fewer in the time that there is."""
    return result.disk_bytes / result.writes.count if result.disk_bytes and result.writes else None


def _search_rows(form: Form) -> Iterator[Row]:
    def hit_rate(result: Result) -> Figure:
        return result.searches[form].hit_rate if form in result.searches else None

    def p50_s(result: Result) -> Figure:
        return result.searches[form].p50_s if form in result.searches else None

    def cpu_s(result: Result) -> Figure:
        return result.searches[form].cpu_s if form in result.searches else None

    yield Row(f"search by {form}, hits", hit_rate, is_less_better=False)
    yield Row(f"search by {form}, p50", p50_s, form=form, is_by_clock=True)
    yield Row(f"search by {form}, CPU", cpu_s, form=form)


def leads(ours: Mapping[str, Result], peers: Iterable[tuple[Result, str]]) -> list[Lead]:
    """Where a peer that keeps what it acknowledges is ahead of the family of ours that it is paired with."""
    return [
        lead
        for peer, family in peers
        if peer.keeps_acknowledged and family in ours
        for row in rows()
        if (lead := _lead(row, peer, ours[family]))
    ]


def _lead(row: Row, peer: Result, ours: Result) -> Lead | None:
    theirs, own = _spread(row.figure(peer)), _spread(row.figure(ours))
    if theirs is None or own is None or not _finds_as_much(row, peer, ours):
        return None
    if row.is_by_clock and (peer.is_disturbed or ours.is_disturbed):
        return None
    if row.is_less_better:
        is_ahead = theirs.value < own.value * (1 - MIN_LEAD) and theirs.high < own.low
    else:
        is_ahead = theirs.value > own.value * (1 + MIN_LEAD) and theirs.low > own.high
    return Lead(row.label, peer.name, theirs.value, own.value) if is_ahead else None


def _finds_as_much(row: Row, peer: Result, ours: Result) -> bool:
    if row.form is None:
        return True
    return peer.searches[row.form].hit_rate >= MIN_HITS * ours.searches[row.form].hit_rate


def _spread(figure: Figure) -> Spread | None:
    return figure if figure is None or isinstance(figure, Spread) else Spread(figure, figure, figure)


def excuses(page: str) -> dict[tuple[str, str], str]:
    """The reasons by row and peer, from the table under its heading. Raises ValueError for an unknown row."""
    section = page.partition(f"\n{EXCUSES}\n")[2].partition("\n#")[0]
    known = {row.label for row in rows()}
    found: dict[tuple[str, str], str] = {}
    for row, peers, reason in _EXCUSE.findall(section):
        if row == "row" or set(row) <= {"-", ":"}:
            continue
        if row not in known:
            raise ValueError(f"There is no row {row!r}; the excuse is for one of: {', '.join(sorted(known))}.")
        found |= {(row, peer.strip()): reason for peer in peers.split(",")}
    return found


def excuse_for(lead: Lead, given: Mapping[tuple[str, str], str]) -> str:
    """The reason; empty if there is none."""
    return given.get((lead.row, lead.peer)) or given.get((lead.row, EVERY_PEER), "")
