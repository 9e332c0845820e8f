import hashlib
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

Action = Literal["created", "updated", "deleted"]

COPY_LIFETIME = timedelta(days=30)  # of what a write replaced or deleted
MAX_RECORDS = 1_000_000  # of one journal. Beyond it the oldest are deleted
MAX_COPY_BYTES = 256 * 1024 * 1024  # of all copies in one journal. Beyond it the oldest are erased


@dataclass(frozen=True)
class ItemWrite:
    """One item of a write: what is undone as a whole, such as a note, a key, a file or a row of a graph."""

    item: str
    action: Action
    before: Any = None
    """The state before it, as JSON that the family can restore. None for a new item, and if no copy may be kept."""
    after: str | None = None  # a digest of the state after it; None: the item is deleted
    rows: int | None = None  # of a table: how many were added or, below 0, deleted
    mark: int | None = None  # that these rows have


@dataclass(frozen=True)
class Writer:
    """Who wrote."""

    source: str  # mcp, ui, cli, import, hook or sync
    client: str  # the name that the program gave itself; empty if it gave none
    key_id: str | None = None
    key_name: str | None = None
    session_id: str | None = None

    def __str__(self) -> str:
        """In a few words, such as `claude-code with key laptop`."""
        prefix = _PREFIXES.get(self.source, "")
        shown = _OWN_PROGRAMS.get(self.source) or f"{prefix}{self.client or 'unnamed client'}"
        return f"{shown} with key {self.key_name}" if self.key_name else shown


_OWN_PROGRAMS = {"cli": "command line", "ui": "web app"}  # by source
_PREFIXES = {"import": "import of ", "hook": "hook of ", "sync": "sync of "}


@dataclass(frozen=True, slots=True)
class WriteRecord:
    """One item of a write, as the journal has it."""

    number: int
    at: str  # ISO 8601, to the millisecond
    writer: Writer
    item: str
    action: Action
    after: str | None
    undo_id: str | None = None  # of the undo that wrote it
    undoes: int | None = None  # the number of the first record that it undid
    rows: int | None = None
    mark: int | None = None


@dataclass(frozen=True)
class WriteQuery:
    """Which records are wanted: those that match all of the fields."""

    client: str | None = None  # without regard to case
    key: str | None = None  # its id, its name, or the beginning that lists of keys show; empty: written without one
    source: str | None = None
    since: str | None = None  # ISO 8601, to the millisecond
    until: str | None = None
    undo_id: str | None = None
    numbers: frozenset[int] | None = None
    session_id: str | None = None


@dataclass(frozen=True)
class WriteGroup:
    """The writes of one writer on one day."""

    day: str
    source: str
    client: str
    key_id: str | None
    key_name: str | None
    count: int
    first_at: str
    last_at: str


@dataclass(frozen=True)
class ItemUndo:
    """What an undo does, or did, with one item."""

    item: str
    outcome: Literal["delete", "restore", "left"]
    writes: int  # how many of the chosen writes
    why: str | None = None  # it is left alone, or cannot be taken back
    rows: int | None = None  # of a table: how many are deleted or restored


def digest(*parts: str | bytes) -> str:
    """Of a state, to notice that an item was changed."""
    whole = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else part.encode()
        whole.update(len(data).to_bytes(8, "big") + data)
    return whole.hexdigest()[:16]
