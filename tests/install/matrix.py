"""Every way to install the wheel, with every supported Python of this machine, then a new user's first steps:
`make install-check`.

Each installation takes the newest versions of its dependencies and an empty home. It needs the package registries.
"""

import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tools.distribution import build_wheel, copy_tree
from tools.install_ways import MINORS, WAYS, Failed, Requested, User, pythons

from tests.install.product import try_out, use_portals


def main() -> int:
    found = pythons()
    for minor in MINORS:
        if f"3.{minor}" not in found:
            print(f"skip  Python 3.{minor}: not on this machine", flush=True)
    failures = 0
    with tempfile.TemporaryDirectory(prefix="install-check-") as scratch:
        folder = Path(scratch)
        wheel = build_wheel(copy_tree(folder / "tree"), folder / "wheel")
        for number, (name, way, python, extra) in enumerate(cases(found)):
            home = folder / f"home{number}"
            home.mkdir()
            user = User(home, Path.home() / ".cache", python)
            failures += not check(name, user, way, Requested(str(wheel), "memory-mcp", extra))
    print(f"{failures} failed" if failures else "all passed")
    return min(failures, 1)


def cases(found: dict[str, str]) -> Iterator[tuple[str, str, str, str]]:
    """Name, way, interpreter and extra. Portals are 0.9 GB, so they are tried once."""
    for version, python in found.items():
        for way in WAYS:
            yield f"Python {version}, {way}", way, python, ""
    version, python = next(iter(found.items()))
    yield f"Python {version}, uv pip install, with portals", "uv pip install", python, "portals"


def check(name: str, user: User, way: str, wanted: Requested) -> bool:
    started = time.monotonic()
    try:
        command = WAYS[way](user, wanted)
        try_out(user, command)
        if wanted.extra:
            use_portals(user, command)
    except (AssertionError, EOFError, Failed) as exc:
        print(f"FAIL  {name}: {exc!r}", flush=True)
        return False
    print(f"ok    {name} ({time.monotonic() - started:.0f} s)", flush=True)
    return True


if __name__ == "__main__":
    sys.exit(main())
