"""What the package imports is what it declares: nothing that only another package brings along, nothing unused."""

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from itertools import chain
from pathlib import Path

ROOT = Path(__file__).parents[1]


def imported() -> set[str]:
    names = set()
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names.add(node.module)
    return {name.split(".")[0] for name in names} - set(sys.stdlib_module_names) - {"memory_mcp"}


def declared() -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    requirements = [*project["dependencies"], *chain(*project["optional-dependencies"].values())]
    return {normalise(found[0]) for line in requirements if (found := re.match(r"[\w.-]+", line))}


def normalise(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_imported_packages_are_declared_and_declared_ones_imported() -> None:
    distributions = packages_distributions()
    known = {name: {normalise(one) for one in distributions.get(name, [])} for name in imported()}
    assert {name for name, of in known.items() if not of & declared()} == set()
    assert declared() - set().union(*known.values()) == set()
