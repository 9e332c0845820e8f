"""The tables of a run, and where they are in docs/benchmarks.md."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.figures import markdown_table
from benchmarks.peers.facts import Form
from benchmarks.peers.results import Kept, Result, Spread
from benchmarks.peers.rows import Lead, excuse_for

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks.md"
BEGIN, END = "<!-- bench-peers: begin -->", "<!-- bench-peers: end -->"
NONE = "–"
MB = 1_000_000


def write_page(page: str, text: str) -> str:
    """The page with this text between its marks."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"The page lacks {BEGIN} or {END}.")
    return f"{before}{BEGIN}\n{text.strip()}\n{END}{after}"


def tables(results: Sequence[Result], notes: Mapping[str, str]) -> str:
    """`notes`: how a server runs here, by its name."""
    measured = [result for result in results if result.start_s]
    parts = [
        ("Start", [_start_heading(), *map(_start_cells, measured)]),
        ("Writes, one after the other", [_write_heading(), *map(_write_cells, measured)]),
        ("Searches", [_search_heading(), *map(_search_cells, measured)]),
        ("What is kept of acknowledged writes", [_kept_heading(), *map(_kept_cells, measured)]),
        ("LoCoMo", [_recall_heading(), *map(_recall_cells, measured)]),
    ]
    texts = [f"**{title}**\n\n{markdown_table(cells)}" for title, cells in parts]
    return "\n\n".join([*texts, *_notes(measured, notes), *_problems(results)])


def _start_heading() -> list[str]:
    return ["", "version", "tools/list, s", "first answer, s", "second client, s", "tools", "tokens"]


def _start_cells(result: Result) -> list[str]:
    return [
        result.name,
        result.version,
        _seconds(result.start_s),
        _seconds(result.first_answer_s),
        f"{result.second_client_s:.2f}" if result.second_client_s else NONE,
        str(result.tools),
        f"{result.tools_tokens:.0f}" if result.tools_tokens else NONE,
    ]


def _write_heading() -> list[str]:
    return ["", "writes", "refused", "p50 ms", "CPU ms each", "memory MB", "disk MB"]


def _write_cells(result: Result) -> list[str]:
    writes = result.writes
    if writes is None:
        return [result.name, *[NONE] * 6]
    memory = f"{result.memory_bytes / MB:.0f}" if result.memory_bytes else NONE
    disk = f"{result.disk_bytes / MB:.1f}" if result.disk_bytes else NONE
    counts = [str(writes.count), str(writes.refused)]
    return [result.name, *counts, _ms(writes.p50_s), f"{writes.cpu_s * 1000:.1f}", memory, disk]


def _search_heading() -> list[str]:
    return ["", *(f"{form}, {what}" for form in Form for what in ("hits", "p50 ms", "CPU ms"))]


def _search_cells(result: Result) -> list[str]:
    cells = [result.name]
    for form in Form:
        found = result.searches.get(form)
        cells += [f"{found.hit_rate:.2f}", _ms(found.p50_s), f"{found.cpu_s * 1000:.1f}"] if found else [NONE] * 3
    return cells


def _kept_heading() -> list[str]:
    whats = ("acknowledged", "kept", "lost")
    return ["", *(f"{case}, {what}" for case in ("two clients", "SIGKILL") for what in whats)]


def _kept_cells(result: Result) -> list[str]:
    return [result.name, *_kept(result.two_clients), *_kept(result.killed)]


def _kept(kept: Kept | None) -> list[str]:
    if kept is None:
        return [NONE] * 3
    return [f"{kept.acknowledged} of {kept.sent}", str(kept.kept), str(kept.lost)]


def _recall_heading() -> list[str]:
    return ["hit@10", "by ids", "by text", "p50 ms", "characters", "turns refused"]


def _recall_cells(result: Result) -> list[str]:
    recall = result.recall
    if recall is None:
        return [result.name, *[NONE] * 5]
    by_id = NONE if recall.by_id is None else f"{recall.by_id:.3f}"
    rest = [f"{recall.p50_s * 1000:.1f}", f"{recall.characters:.0f}", str(recall.refused)]
    return [result.name, by_id, f"{recall.by_text:.3f}", *rest]


def _notes(results: Sequence[Result], notes: Mapping[str, str]) -> list[str]:
    lines = [f"- {result.name}: {note}" for result in results if (note := notes.get(result.name))]
    return ["How they ran:\n\n" + "\n".join(lines)] if lines else []


def _problems(results: Sequence[Result]) -> list[str]:
    lines = [f"- {result.name}: {result.problem}" for result in results if result.problem]
    for result in results:
        for kept in (result.two_clients, result.killed):
            lines += [f"- {result.name}: {kept.problem}"] if kept and kept.problem else []
    return ["What did not work:\n\n" + "\n".join(lines)] if lines else []


def times(how: str, results: Sequence[Result]) -> str:
    """When each server was measured, and what else the machine did then."""
    lines = [f"{result.measured_at} UTC, load average {result.load:.1f}: {result.name}" for result in results]
    return "\n".join(["```", how, *lines, "```"])


def leads_table(leads: Sequence[Lead], given: Mapping[tuple[str, str], str]) -> str:
    """Where a peer is ahead, and whether that is excused."""
    if not leads:
        return "No peer that keeps what it acknowledges is ahead in any row."
    heading = ["ahead of ours", "peer", "theirs", "ours", "excused"]
    cells = [
        [lead.row, lead.peer, _figure(lead.theirs), _figure(lead.ours), "yes" if excuse_for(lead, given) else "**no**"]
        for lead in leads
    ]
    return markdown_table([heading, *cells])


def _figure(value: float) -> str:
    """Three digits, in the unit of the row: seconds, tokens, bytes or a share."""
    return f"{value / MB:.1f} MB" if value >= MB else f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _seconds(spread: Spread | None) -> str:
    return f"{spread.value:.2f} ({spread.low:.2f}–{spread.high:.2f})" if spread else NONE


def _ms(spread: Spread) -> str:
    return f"{spread.value * 1000:.1f} ({spread.low * 1000:.1f}–{spread.high * 1000:.1f})"
