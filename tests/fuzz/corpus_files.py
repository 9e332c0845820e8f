"""The kept corpus: one file for each parser, one input per line, as a JSON text of its bytes in Latin-1."""

import json
from pathlib import Path

FOLDER = Path(__file__).parent / "corpus"
MAX_KEPT = 40  # inputs of a parser that a run adds
MAX_KEPT_BYTES = 400  # of one of them; what failed is kept at any size


def read(name: str) -> list[bytes]:
    path = FOLDER / f"{name}.jsonl"
    lines = path.read_text(encoding="ascii").splitlines() if path.exists() else []
    return [str(json.loads(line)).encode("latin-1") for line in lines]


def add(name: str, inputs: list[bytes]) -> int:
    """How many of these inputs are new."""
    known = read(name)
    new = [one for one in dict.fromkeys(inputs) if one not in known]
    if not new:
        return 0
    text = "".join(json.dumps(one.decode("latin-1")) + "\n" for one in [*known, *new])
    (FOLDER / f"{name}.jsonl").write_text(text, encoding="ascii")
    return len(new)
