"""References: texts that name one memory of a family, such as stores:diary/one, and how a family opens one.

Search, lists and links give references. `recall_open`, `memory-mcp show` and the web app open them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from memory_mcp.errors import Conflict, NotFound

if TYPE_CHECKING:
    from memory_mcp.families.family import Call

Ops = TypeVar("Ops")

OPENER = "recall_open"  # the tool that opens references of all families


@dataclass(frozen=True)
class Opened:
    """The memory that a reference names."""

    ref: str  # as the family itself writes it
    title: str
    content: str  # all of it, as text
    details: Any  # as the family's own tools and resources show it
    created_at: str | None = None
    updated_at: str | None = None


SaveCopy = Callable[[Any], None]
"""Called with a copy of a memory, as JSON, just before it is deleted. If it fails, the memory stays."""


@dataclass(frozen=True)
class Edits(Generic[Ops]):
    """How a person edits, deletes and restores one memory by its reference, as the family writes it."""

    is_one: Callable[[str], bool]  # False for a list, such as a namespace
    suffix: str  # of a file with the text to edit
    write: Callable[[Call[Ops], str, str, str], None]
    """Replace the text of a memory. The arguments are the former text, then the new one. Raises Conflict with the code
    `changed` if the text is no longer the former one."""
    delete: Callable[[Call[Ops], str, SaveCopy | None], None]  # None: no copy is wanted, it is deleted for good
    restore: Callable[[Call[Ops], str, Any], str | None]
    """Restore a deleted memory from its copy, or from None if there is no copy. Returns what could not be restored.
    Raises Conflict if another memory has its name now, and NotFound if a copy is needed."""
    text: Callable[[Call[Ops], str], str] | None = None  # to edit; None: the content


@dataclass(frozen=True)
class References(Generic[Ops]):
    """The references of one family."""

    form: str  # how they look, such as stores:STORE/PATH
    prefixes: tuple[str, ...]  # each starts with one of these
    open: Callable[[Call[Ops], str], Opened]  # raises NotFound
    tool: str | None = None  # the family's own tool that reads one memory
    is_bare: Callable[[str], bool] = lambda text: False  # whether a text without a prefix is one, such as an id
    all_groups: str | None = None  # the reference of the list of all its groups
    edits: Edits[Ops] | None = None  # None: its memories cannot be edited as text

    def includes(self, text: str) -> bool:
        return text.startswith(self.prefixes) or self.is_bare(text)


@dataclass(frozen=True)
class NamedByReference:
    """The arguments that a reference stands for."""

    name: str  # of the memory, which replaces the reference
    other_arguments: Mapping[str, str] = field(default_factory=dict)  # of the tool, such as the store of a path


@dataclass(frozen=True)
class TakesReference:
    """Marks an argument that takes a reference where it takes an id, a key, a path or a name."""

    parse: Callable[[str], NamedByReference | None]  # None: the text is no such reference
    may_be_new: bool = False  # the argument may name something new, which may look like another family's reference


@dataclass(frozen=True)
class GroupSize:
    """How many memories a namespace, store, project or portal has."""

    name: str | None  # None: the family has no groups
    count: int | None  # None: it is not known without starting an engine
    last_write: str | None = None  # ISO 8601
    ref: str = ""  # which opens it
    tables: Mapping[str, int] = field(default_factory=dict)  # of a portal: the rows of each


def no_copy(ref: str) -> NotFound:
    return NotFound(f"There is no copy of {ref} to restore.", ref=ref)


def changed_meanwhile(what: str) -> Conflict:
    return Conflict(f"{what} was changed meanwhile.", code="changed")


def text_of_list(heading: str, lines: Iterable[str], following: str | None = None) -> str:
    """A list as a text. `following` is the reference of its next part."""
    shown = [f"- {line}" for line in lines]
    more = [f"There is more: open {following}"] if following else []
    return "\n".join([heading, *shown, *more])
