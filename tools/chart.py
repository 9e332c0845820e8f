"""The chart of README.md, from figures in docs/benchmarks.md: the same calls to this server and to server-memory."""

import math
import re

ROW = re.compile(r"^ +100000, (?P<call>\w+)(?:, all)? +(?P<ours>[\d.]+) +(?P<theirs>[\d.]+) ", re.MULTILINE)
SECTION = "## Graphs, next to server-memory"
OURS, THEIRS = "Memory MCP", "server-memory"
LABEL_WIDTH, BAR_WIDTH, VALUE_WIDTH = 150, 430, 80
BAR_HEIGHT, GROUP_HEIGHT, TOP = 14, 46, 64
STYLE = """\
    text { font: 13px system-ui, sans-serif; fill: #1f2328 }
    .title { font-weight: 600; font-size: 15px }
    .small { font-size: 12px; fill: #59636e }
    .ours { fill: #1a7f64 }
    .theirs { fill: #9aa4ae }
    @media (prefers-color-scheme: dark) {
      text { fill: #f0f6fc }
      .small { fill: #9198a1 }
      .ours { fill: #3fb68b }
      .theirs { fill: #656c76 }
    }"""


def chart(benchmarks: str) -> str:
    """An SVG with a logarithmic scale: the times differ by a factor of up to 400."""
    [section] = re.findall(rf"^{SECTION}$(.+?)^## ", benchmarks, re.MULTILINE | re.DOTALL)
    rows = [(found["call"], float(found["ours"]), float(found["theirs"])) for found in ROW.finditer(section)]
    top = max(max(ours, theirs) for _, ours, theirs in rows)
    width, height = LABEL_WIDTH + BAR_WIDTH + VALUE_WIDTH, TOP + GROUP_HEIGHT * len(rows) + 6
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'role="img" aria-labelledby="title">',
        f'  <title id="title">Milliseconds a call takes in a graph of 100,000 entities: {OURS} and {THEIRS}</title>',
        f"  <style>\n{STYLE}\n  </style>",
        '  <text x="0" y="16" class="title">One call in a graph of 100,000 entities</text>',
        '  <text x="0" y="36" class="small">Milliseconds, shorter is better; each step of the scale is ten times the '
        "one before</text>",
        *_legend(),
    ]
    for number, (call, ours, theirs) in enumerate(rows):
        y = TOP + GROUP_HEIGHT * number
        parts.append(f'  <text x="0" y="{y + 20}">{call}</text>')
        parts += _bar(y + 2, ours, top, "ours")
        parts += _bar(y + 4 + BAR_HEIGHT, theirs, top, "theirs")
    return "\n".join([*parts, "</svg>", ""])


def _legend() -> list[str]:
    x = LABEL_WIDTH + 290
    return [
        f'  <rect x="{x}" y="5" width="12" height="12" rx="2" class="ours"/><text x="{x + 18}" y="16">{OURS}</text>',
        f'  <rect x="{x + 110}" y="5" width="12" height="12" rx="2" class="theirs"/>'
        f'<text x="{x + 128}" y="16">{THEIRS}</text>',
    ]


def _bar(y: int, value_ms: float, top_ms: float, who: str) -> list[str]:
    length = round(BAR_WIDTH * math.log10(value_ms) / math.log10(top_ms), 1)
    return [
        f'  <rect x="{LABEL_WIDTH}" y="{y}" width="{length}" height="{BAR_HEIGHT}" rx="3" class="{who}"/>',
        f'  <text x="{LABEL_WIDTH + length + 6:.1f}" y="{y + 12}" class="small">{value_ms:,.0f}</text>',
    ]
