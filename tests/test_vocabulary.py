"""The words that docs/decisions/0017-standard-names.md replaced stay out of names and prose."""

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
OLD = frozenset(
    [
        "tell",
        "tells",
        "told",
        "telling",
        "anew",
        "nobody",
        "somebody",
        "whoever",
        "dead",
        "bury",
        "buried",
        "lent",
        "patience",
        "shelf",
        "shelves",
        "neighbour",
        "neighbours",
        "door",
        "doors",
        "room",
        "rooms",
        "wall",
        "deed",
        "deeds",
        "breath",
        "slim",
        "slimmed",
        "mend",
        "mends",
        "mended",
        "mending",
        "afresh",
        "nameless",
        "steer",
        "steers",
    ]
)
OLD_IN_NAMES = OLD | frozenset(["said", "asked", "asks", "asking", "turns", "farthest", "longest", "largest", "most"])
"""Plain English in a sentence, but no names for requests, answers, locks and limits."""
OF_PYTHON = {"tell", "zip_longest", "most_common"}
ALLOWED: dict[str, frozenset[str]] = {
    "benchmarks/peers/servers.py": frozenset({"room"}),  # an argument of a peer's tool
    "docs/decisions/0017-standard-names.md": OLD,  # lists the old names
    "docs/import.md": frozenset({"told"}),  # a field of the import report
    "docs/schema.md": OLD,  # generated from migrations, which never change
    "docs/sync.md": frozenset({"dead"}),  # a field of the protocol
    "docs/tools.md": frozenset({"nobody"}),  # generated from the descriptions of tools
    "src/memory_mcp/conversations/transcripts.py": frozenset({"tell"}),  # a method of files
    "src/memory_mcp/engines/chdb/broker.py": frozenset({"afresh"}),  # a request between servers and engines
    "src/memory_mcp/engines/chdb/client.py": frozenset({"afresh"}),  # the same
    "src/memory_mcp/engines/chdb/frames.py": frozenset({"lent"}),  # a key between servers and engines
    "src/memory_mcp/engines/files/compressed.py": frozenset({"tell"}),  # a method of files
    "src/memory_mcp/families/notes/tools.py": frozenset({"neighbours"}),  # the title of a tool
    "src/memory_mcp/families/portals/tools.py": frozenset({"nobody"}),  # the description of a tool
    "src/memory_mcp/importers/model.py": frozenset({"told"}),  # a field of the import report
    "src/memory_mcp/services/search/fts_query.py": frozenset({"tell"}),  # a word that searches ignore
    "src/memory_mcp/services/sync/records.py": frozenset({"dead"}),  # a field of the protocol
    "tests/engines/isolation/test_worker_process.py": frozenset({"tell"}),  # a method of files
    "tests/test_vocabulary.py": OLD_IN_NAMES,
}
"""By file, the old words that it may use."""
_WORD = re.compile(r"\w+")
_NAME_PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_NO_CODE = re.compile(r"""(\"{3}|'{3})(?:\\.|.)*?\1|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|\#[^\n]*""", re.DOTALL)
"""Strings and comments."""
_PROSE = re.compile(rf"\b({'|'.join(sorted(OLD))})\b", re.IGNORECASE)


def names_of(text: str) -> set[str]:
    """Every identifier, and every keyword."""
    return set(_WORD.findall(_NO_CODE.sub("", text)))


def offences(path: Path) -> Iterator[str]:
    name, text = path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
    allowed = ALLOWED.get(name, frozenset())
    if {word.lower() for word in _WORD.findall(text)} & (OLD - allowed):
        for number, line in enumerate(text.splitlines(), 1):
            for found in _PROSE.findall(line):
                if found.lower() not in allowed:
                    yield f"{name}:{number}: {found}: {line.strip()[:120]}"
    if path.suffix == ".py":
        for identifier in names_of(text) - OF_PYTHON:
            for part in _NAME_PART.findall(identifier):
                if part.lower() in OLD_IN_NAMES and part.lower() not in allowed:
                    yield f"{name}: {part} in the name {identifier}"


def sources() -> Iterator[Path]:
    for folder, patterns in {
        "src": ("*.py",),
        "tests": ("*.py",),
        "benchmarks": ("*.py",),
        "tools": ("*.py",),
        "docs": ("*.md",),
        "ui/src": ("*.ts", "*.tsx"),
    }.items():
        for pattern in patterns:
            yield from sorted((ROOT / folder).rglob(pattern))
    yield from sorted(ROOT.glob("*.md"))


def test_no_old_word_is_used() -> None:
    assert [offence for path in sources() for offence in offences(path)] == []
