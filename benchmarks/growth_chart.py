"""The chart of `make bench-growth`: a line for each family, on logarithmic scales."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from tools.chart import STYLE

if TYPE_CHECKING:
    from benchmarks.growth import Grown

PICTURE = Path(__file__).parents[1] / "docs" / "pictures" / "growth.svg"
PANEL_WIDTH, PANEL_HEIGHT, LEFT, TOP, GAP = 250, 190, 52, 84, 40
LINES = """\
    .line { fill: none; stroke-width: 2 }
    .grid { stroke: #d1d9e0; stroke-width: 1 }
    .vault { stroke: #1a7f64; fill: #1a7f64 } .notes { stroke: #0969da; fill: #0969da }
    .graph { stroke: #bc4c00; fill: #bc4c00 } .recall { stroke: #8250df; fill: #8250df }
    path.line { fill: none }
    @media (prefers-color-scheme: dark) {
      .grid { stroke: #3d444d }
      .vault { stroke: #3fb68b; fill: #3fb68b } .notes { stroke: #4493f8; fill: #4493f8 }
      .graph { stroke: #f0883e; fill: #f0883e } .recall { stroke: #ab7df8; fill: #ab7df8 }
      path.line { fill: none }
    }"""


@dataclass(frozen=True)
class Panel:
    title: str
    subtitle: str
    value: Callable[["Grown"], float]


PANELS = (
    Panel("A search", "processor time, median, ms", lambda one: one.cpu_ms),
    Panel("Memory of the server", "MB, without mapped files", lambda one: one.memory_mb),
    Panel("Disk", "MB", lambda one: one.disk_mb),
)


def chart(figures: Sequence["Grown"], when: str) -> str:
    width = len(PANELS) * (LEFT + PANEL_WIDTH + GAP)
    height = TOP + PANEL_HEIGHT + 30
    title = "From a thousand memories to a million"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'role="img" aria-labelledby="title">',
        f'  <title id="title">{title}: time of a search, memory and disk</title>',
        f"  <style>\n{STYLE}\n{LINES}\n  </style>",
        f'  <text x="0" y="18" class="title">{title}</text>',
        f'  <text x="0" y="38" class="small">make bench-growth, {escape(when)}; both scales are logarithmic</text>',
        *_legend(sorted({one.family for one in figures}), width),
    ]
    for number, panel in enumerate(PANELS):
        parts += _panel(panel, figures, number * (LEFT + PANEL_WIDTH + GAP) + LEFT)
    return "\n".join([*parts, "</svg>", ""])


def _legend(families: Sequence[str], width: int) -> list[str]:
    lines = []
    for number, family in enumerate(families):
        x = width - 80 * (len(families) - number)
        lines.append(f'  <rect x="{x}" y="8" width="12" height="12" rx="2" class="{family}"/>')
        lines.append(f'  <text x="{x + 18}" y="18" class="small">{family}</text>')
    return lines


def _panel(panel: Panel, figures: Sequence["Grown"], x: int) -> list[str]:
    counts = sorted({one.count for one in figures})
    low = math.floor(math.log10(min(panel.value(one) for one in figures)))
    high = max(low + 1, math.ceil(math.log10(max(panel.value(one) for one in figures))))

    def across(count: int) -> float:
        span = math.log10(counts[-1] / counts[0]) or 1
        return x + PANEL_WIDTH * math.log10(count / counts[0]) / span

    def up(value: float) -> float:
        return TOP + PANEL_HEIGHT * (1 - (math.log10(value) - low) / (high - low))

    lines = [
        f'  <text x="{x}" y="{TOP - 24}" class="title">{panel.title}</text>',
        f'  <text x="{x}" y="{TOP - 8}" class="small">{panel.subtitle}</text>',
    ]
    for power in range(low, high + 1):
        y = up(10**power)
        lines.append(f'  <path d="M{x} {y:.1f}h{PANEL_WIDTH}" class="grid"/>')
        lines.append(f'  <text x="{x - 6}" y="{y + 4:.1f}" text-anchor="end" class="small">{10**power:,g}</text>')
    for count in counts:
        label = f"{count // 1_000_000}M" if count >= 1_000_000 else f"{count // 1000}k" if count >= 1000 else str(count)
        y = TOP + PANEL_HEIGHT + 18
        lines.append(f'  <text x="{across(count):.1f}" y="{y}" text-anchor="middle" class="small">{label}</text>')
    for family in sorted({one.family for one in figures}):
        points = sorted((one.count, panel.value(one)) for one in figures if one.family == family)
        path = " ".join(f"{across(count):.1f} {up(value):.1f}" for count, value in points)
        lines.append(f'  <path d="M{path}" class="line {family}"/>')
        lines += [
            f'  <circle cx="{across(count):.1f}" cy="{up(value):.1f}" r="3" class="{family}"/>'
            for count, value in points
        ]
    return lines
