"""One parser under atheris, in a process of its own: `python -m tests.fuzz.target NAME LIBFUZZER-ARGUMENTS`."""

import sys

import atheris

with atheris.instrument_imports(include=["memory_mcp"]):
    from tests.fuzz.parsers import PARSERS


def main() -> None:
    _, name, *arguments = sys.argv
    atheris.Setup([name, *arguments], PARSERS[name].check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
