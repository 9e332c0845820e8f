"""References: texts that name one thing a family stores, such as stores:diary/one, and how a family opens one.

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
    """The thing that a reference names."""

    ref: str  # as the family itself writes it
    title: str
    content: str  # all of it, as text
    details: Any  # as the family's own tools and resources show it
    created_at: str | None = None
    updated_at: str | None = None


Keep = Callable[[Any], None]
"""Called with a copy of a thing, as JSON, just before it is deleted. The thing stays if this fails."""


@dataclass(frozen=True)
class Editing(Generic[Ops]):
    """How a person edits and deletes one thing that a reference names. References are as the family writes them."""

    is_one: Callable[[str], bool]  # False for a list, such as a namespace
    suffix: str  # of a file with the text to edit
    write: Callable[[Call[Ops], str, str, str], None]
    """Replace the text of a reference: the text before, then the new one. Raises Conflict with the code `changed` if
    the text is another by now."""
    delete: Callable[[Call[Ops], str, Keep | None], None]  # None: no copy is wanted, it is deleted for good
    restore: Callable[[Call[Ops], str, Any], str | None]
    """Bring a deleted thing back from its copy; None if there is no copy. Returns what could not be restored. Raises
    Conflict if something else is there by now, and NotFound if it is impossible without a copy."""
    text: Callable[[Call[Ops], str], str] | None = None  # to edit; None: the content


@dataclass(frozen=True)
class References(Generic[Ops]):
    """The references of one family."""

    form: str  # how they look, such as stores:STORE/PATH
    prefixes: tuple[str, ...]  # each starts with one of these
    open: Callable[[Call[Ops], str], Opened]  # raises NotFound
    tool: str | None = None  # the family's own tool that reads one thing
    is_bare: Callable[[str], bool] = lambda text: False  # whether a text without a prefix is one, such as an id
    all_groups: str | None = None  # the reference of the list of all its groups
    editing: Editing[Ops] | None = None  # None: its things cannot be edited as a text

    def includes(self, text: str) -> bool:
        return text.startswith(self.prefixes) or self.is_bare(text)


@dataclass(frozen=True)
class Named:
    """The thing that a reference in an argument names."""

    name: str  # in place of the reference
    beside: Mapping[str, str] = field(default_factory=dict)  # other arguments of the tool, such as the store of a path


@dataclass(frozen=True)
class TakesReference:
    """Marks an argument that takes a reference where it takes an id, a key, a path or a name."""

    parse: Callable[[str], Named | None]  # None: the text is no reference to such a thing
    may_be_new: bool = False  # the argument may also name something new, so it may look like a reference of others


@dataclass(frozen=True)
class GroupSize:
    """How much a family stores in a namespace, store, project or portal."""

    name: str | None  # None: the family has no groups
    count: int | None  # None: it is not known without starting an engine
    last_write: str | None = None  # ISO 8601
    ref: str = ""  # which opens it
    tables: Mapping[str, int] = field(default_factory=dict)  # of a portal: the rows of each


def no_copy(ref: str) -> NotFound:
    return NotFound(f"There is no copy of {ref} to restore.", ref=ref)


def changed(what: str) -> Conflict:
    return Conflict(f"{what} was changed meanwhile.", code="changed")


def text_of_list(heading: str, lines: Iterable[str], following: str | None = None) -> str:
    """A list as a text. `following` is the reference of its next part."""
    shown = [f"- {line}" for line in lines]
    more = [f"There is more: open {following}"] if following else []
    return "\n".join([heading, *shown, *more])
