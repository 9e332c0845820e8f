"""The size of the product: modules and lines by package, the longest file and the longest function of each.

`python -m tools.sizes [FOLDER]` prints the table of docs/design.md. A function's docstring is not counted.
"""

import ast
import sys
from collections import defaultdict
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "memory_mcp"
HEADINGS = ("package", "modules", "lines", "longest file", "longest function")


def line_count(path: Path) -> int:
    return path.read_text(encoding="utf-8").count("\n")


def max_function_lines(path: Path) -> int:
    functions = (
        node
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    return max(map(function_lines, functions), default=0)


def function_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """From `def` to the end, without the docstring."""
    lines = (function.end_lineno or 0) - function.lineno + 1
    if ast.get_docstring(function, clean=False) is not None:
        prose = function.body[0]
        lines -= (prose.end_lineno or 0) - prose.lineno + 1
    return lines


def row(name: str, paths: list[Path]) -> tuple[str, ...]:
    lines = [line_count(path) for path in paths]
    return (name, *map(str, (len(paths), sum(lines), max(lines), max(map(max_function_lines, paths)))))


def table(source: Path) -> list[tuple[str, ...]]:
    packages: dict[str, list[Path]] = defaultdict(list)
    for path in sorted(source.rglob("*.py")):
        inside = path.relative_to(source).parts
        packages[inside[0] if len(inside) > 1 else "(top level)"].append(path)
    everything = [path for paths in packages.values() for path in paths]
    return [HEADINGS, *(row(name, paths) for name, paths in sorted(packages.items())), row("all", everything)]


def main() -> None:
    rows = table(Path(sys.argv[1]) if len(sys.argv) > 1 else SOURCE)
    sys.stdout.write(f"| {' | '.join(rows[0])} |\n|---{'|---:' * (len(HEADINGS) - 1)}|\n")
    for cells in rows[1:]:
        sys.stdout.write(f"| {' | '.join(cells)} |\n")


if __name__ == "__main__":
    main()
