"""The chart of a run: for each of a few rows, a bar for each server."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

from tools.chart import STYLE

from benchmarks.peers.facts import Form
from benchmarks.peers.results import Result

PICTURE = Path(__file__).parents[2] / "docs" / "pictures" / "peers.svg"
LABEL_WIDTH, BAR_WIDTH, PANEL_WIDTH = 150, 180, 400
BAR_HEIGHT, BAR_STEP, TOP, PANEL_TOP = 12, 18, 60, 40


@dataclass(frozen=True)
class Panel:
    title: str
    subtitle: str
    value: Callable[[Result], float | None]
    shown: Callable[[float], str]


PANELS = (
    Panel(
        "Questions answered",
        "LoCoMo: the answer is among ten hits; longer is better",
        lambda result: max(result.recall.by_id or 0.0, result.recall.by_text) if result.recall else None,
        lambda value: f"{value:.2f}",
    ),
    Panel(
        "Writes of two clients at once",
        "kept, of 200; longer is better",
        lambda result: result.two_clients.kept if result.two_clients else None,
        lambda value: f"{value:.0f}",
    ),
    Panel(
        "CPU of a write",
        "milliseconds, until it is found; shorter is better",
        lambda result: result.writes.cpu_s * 1000 if result.writes else None,
        lambda value: f"{value:.1f}",
    ),
    Panel(
        "CPU of a search by question",
        "milliseconds; shorter is better",
        lambda result: result.searches[Form.QUESTION].cpu_s * 1000 if Form.QUESTION in result.searches else None,
        lambda value: f"{value:.1f}",
    ),
)


def chart(results: Sequence[Result], ours: Sequence[str], when: str) -> str:
    measured = [result for result in results if result.start_s]
    panel_height = PANEL_TOP + BAR_STEP * len(measured) + 24
    height = TOP + panel_height * ((len(PANELS) + 1) // 2)
    width = 2 * PANEL_WIDTH + 20
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'role="img" aria-labelledby="title">',
        '  <title id="title">Memory MCP next to other memory servers</title>',
        f"  <style>\n{STYLE}\n  </style>",
        '  <text x="0" y="18" class="title">Memory MCP next to other memory servers, in one run</text>',
        f'  <text x="0" y="38" class="small">make bench-peers, {escape(when)}</text>',
    ]
    for number, panel in enumerate(PANELS):
        x, y = (number % 2) * (PANEL_WIDTH + 20), TOP + (number // 2) * panel_height
        parts += _panel(panel, measured, ours, x, y)
    return "\n".join([*parts, "</svg>", ""])


def _panel(panel: Panel, results: Sequence[Result], ours: Sequence[str], x: int, y: int) -> list[str]:
    values = [(result, panel.value(result)) for result in results]
    top = max((value for _, value in values if value is not None), default=0.0) or 1.0
    lines = [
        f'  <text x="{x}" y="{y + 14}" class="title">{panel.title}</text>',
        f'  <text x="{x}" y="{y + 31}" class="small">{panel.subtitle}</text>',
    ]
    for number, (result, value) in enumerate(values):
        line = y + PANEL_TOP + BAR_STEP * number
        lines.append(f'  <text x="{x}" y="{line + 11}" class="small">{escape(result.name)}</text>')
        lines += _bar(x + LABEL_WIDTH, line, value, top, panel, "ours" if result.name in ours else "theirs")
    return lines


def _bar(x: int, y: int, value: float | None, top: float, panel: Panel, who: str) -> list[str]:
    length = BAR_WIDTH * value / top if value else 0.0
    shown = panel.shown(value) if value is not None else "–"
    return [
        f'  <rect x="{x}" y="{y}" width="{length:.1f}" height="{BAR_HEIGHT}" rx="3" class="{who}"/>',
        f'  <text x="{x + length + 6:.1f}" y="{y + 11}" class="small">{shown}</text>',
    ]
