"""What an undo of writes to a table finds and does there. Plain values: servers send them to each other."""

from dataclasses import dataclass, field

from memory_mcp.services.write_journal.model import MAX_COPY_BYTES


@dataclass(frozen=True)
class RowUndo:
    """The undo of one write, or of such an undo."""

    number: int  # of the record that it undoes
    mark: int  # of the rows
    copied_by: str | None = None  # the undo that has deleted the rows, if they are to be put back


@dataclass(frozen=True)
class FoundRows:
    """What there is of some writes to a table."""

    counts: dict[int, int] = field(default_factory=dict)  # how many rows each mark has in the table
    bytes: int = 0  # of the rows in the table
    copies: list[str] = field(default_factory=list)  # the undos whose deleted rows are kept
    why_none: str | None = None  # no row of the table can be found

    @property
    def is_copied(self) -> bool:
        """Whether a copy is kept of the rows if they are deleted."""
        return self.bytes <= MAX_COPY_BYTES
