"""One parser under atheris, in a process of its own: `python -m tests.fuzz.target NAME LAST-INPUT MAX-BYTES
LIBFUZZER-ARGUMENTS`."""

import sys
from pathlib import Path

import atheris

from tests.fuzz.last_input import record_inputs

with atheris.instrument_imports(include=["memory_mcp"]):
    from tests.fuzz.parsers import PARSERS


def main() -> None:
    _, name, last_input, max_bytes, *arguments = sys.argv
    limit = f"-max_len={max_bytes}"
    atheris.Setup([name, limit, *arguments], record_inputs(PARSERS[name].check, Path(last_input), int(max_bytes)))
    atheris.Fuzz()


if __name__ == "__main__":
    main()
