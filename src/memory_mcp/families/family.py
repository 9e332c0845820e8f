"""A family, declared as plain values that know no protocol: its tools, prompts, resources and completions, and what
search, Home and maintenance need of it.

Everything a tool needs at its entry (scope, argument bounds) and its exit (result shape, how errors are encoded) is
declared here and done once, by the server.
"""

from __future__ import annotations

import threading
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, TypeVar
from urllib.parse import unquote

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter

from memory_mcp.caller import Caller, Scope
from memory_mcp.errors import Invalid, NotFound
from memory_mcp.families.texts import Group, Match, Purge, TextQuery
from memory_mcp.names import check_readable
from memory_mcp.progress import ReportProgress, report_nothing

if TYPE_CHECKING:
    from memory_mcp.engines.sqlite.database_kind import DatabaseKind
    from memory_mcp.families.context import Context
    from memory_mcp.families.maintenance import FamilyMaintenance
    from memory_mcp.families.references import GroupSize, References
    from memory_mcp.sessions import Session

TOKEN_BUDGET = 20_000  # what one answer may cost a model
BYTES_PER_TOKEN = 4  # of texts in JSON


READABLE = AfterValidator(check_readable)
"""Marks the argument that names something new. Arguments that only find things take every name that exists."""


LEFT_OUT = Field(exclude_if=lambda value: value is None)
"""Marks a field of an answer that is not there when it has no value. Every other one is null then."""

Notice = Annotated[str | None, LEFT_OUT, Field(description="What was left out, and what to do about it.")]
"""Of an answer that is not whole."""


class Arguments(BaseModel):
    """Base of every tool's arguments: strict types, nothing unknown. The server has coerced them before."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


A = TypeVar("A", bound=Arguments)
Ops = TypeVar("Ops")
"""What a family can do: the object that its `open` returns, such as a Vault."""


@dataclass(frozen=True)
class Call(Generic[Ops]):
    """One call of a family's tool, resource or completion: who makes it, in which session, and where to report
    progress."""

    operations: Ops  # of the tool's own family
    caller: Caller
    session: Session
    progress: ReportProgress = report_nothing
    cancelled: threading.Event = field(default_factory=threading.Event)


@dataclass(frozen=True)
class Tool:
    run: Callable[[Call[Any], Any], Any]  # its name is the tool's name, its docstring what the model reads
    family: str
    title: str
    needs: Scope
    arguments: type[Arguments]
    returns: type[Any]
    destructive: bool
    idempotent: bool
    makes_files: bool  # although it changes nothing of what is stored
    spec_name: str | None  # what its specification calls it, where that is no name for every client
    changes_session: bool  # it changes what later calls of its session mean
    spells_out_answers: bool  # in tools/list; docs/tools.md always does
    spells_out_bounds: bool
    app_only: bool  # for a page that a host shows (MCP Apps), not for its model
    summary: Callable[[Any], str] | None  # the answer in a line for people, beside the answer itself
    audit: Callable[[Any, Any], Mapping[str, Any]] | None
    """Of arguments and answer, the details that the audit log keeps of a deletion. None: its arguments, which must not
    hold what was deleted."""
    without_read: frozenset[str] | None
    """For a tool whose answer shows what was stored before: the fields, such as ids and times, that a caller without
    read_memory gets, beside those that the call itself sets. None: all of them."""
    own_meta: Mapping[str, Any]

    @property
    def name(self) -> str:
        return self.run.__name__

    @property
    def description(self) -> str:
        return " ".join((self.run.__doc__ or "").split())

    @property
    def meta(self) -> dict[str, Any]:
        return {"family": self.family, "scope": self.needs.value, **self.own_meta}

    @property
    def reads_only(self) -> bool:
        """Whether it changes nothing of what is stored here."""
        return self.needs is Scope.READ

    @property
    def changes_nothing(self) -> bool:
        """Anywhere: it makes no file either."""
        return self.reads_only and not self.makes_files

    @property
    def deletes(self) -> bool:
        return self.needs is Scope.DELETE or (self.needs is Scope.LINK and self.destructive)

    @cached_property
    def answers(self) -> TypeAdapter[Any]:
        """Made when it is first needed: a server starts more often than it uses every tool."""
        return TypeAdapter(self.returns)


@dataclass(frozen=True)
class PromptArgument:
    name: str
    description: str
    required: bool = True


@dataclass(frozen=True)
class Prompt:
    """A request a person can pick in a client; `write` puts it into words for the model."""

    name: str
    title: str
    description: str
    arguments: tuple[PromptArgument, ...]
    write: Callable[[Mapping[str, str]], str]
    needs: frozenset[Scope] = frozenset({Scope.READ})  # for the tools that it names


@dataclass(frozen=True)
class Document:
    """What reading a resource gives."""

    uri: str
    text: str
    mime_type: str = "application/json"
    meta: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Listed:
    """One line of resources/list."""

    uri: str
    name: str
    description: str | None = None
    mime_type: str = "application/json"
    meta: Mapping[str, Any] = field(default_factory=dict)
    title: str | None = None  # for people


@dataclass(frozen=True)
class Template:
    uri_template: str
    name: str
    description: str
    mime_type: str = "application/json"


@dataclass(frozen=True)
class LastWrite:
    """When one thing that a family keeps was last written."""

    ref: str  # the address or path that opens it
    title: str
    at: str  # ISO 8601


@dataclass(frozen=True)
class ResourcePage:
    resources: Sequence[Listed]
    next_position: str | None = None  # where the next page starts; None on the last


def _read_nothing(call: Call[Any], uri: str) -> Document:
    raise NotFound("No resource has this address.", hint="resources/list shows what there is.")


@dataclass(frozen=True)
class Family(Generic[Ops]):
    """What a family offers. `errors` says how its specification wants errors encoded."""

    name: str
    purpose: str  # in the server's instructions, without names of tools
    main_tools: tuple[str, ...]  # that the instructions name, of those a connection has
    errors: Literal["json-rpc", "tool-result"]
    uri_prefixes: tuple[str, ...]  # which resources are this family's
    open: Callable[[Context], Ops]  # a file that it opens is closed by the context
    databases: tuple[DatabaseKind, ...] = ()  # the SQLite files it keeps, and its caches
    spells_out_answers: bool = False  # its specification prescribes the output schemas; others are kept short
    spells_out_bounds: bool = False  # tools/list says of its arguments what may not be empty, and what is off
    is_confinable: bool = False  # it keeps to the namespace of a caller who is confined to one
    is_listed_first: bool = False  # its tools stand before those of other families in tools/list
    tools: dict[str, Tool] = field(default_factory=dict)
    prompts: tuple[Prompt, ...] = ()
    templates: tuple[Template, ...] = ()
    list_resources: Callable[[Call[Ops], str | None, int], ResourcePage] = lambda call, position, limit: ResourcePage(
        ()
    )
    """Up to so many resources, from a position on; None is the start."""
    read_resource: Callable[[Call[Ops], str], Document] = _read_nothing
    watched: Callable[[Call[Ops], str], str | None] = lambda call, uri: None
    """The address under which changes of a resource are published; None if the caller may not learn of them."""
    complete: Callable[[Call[Ops], str, str], Sequence[str]] = lambda call, name, value: ()  # an argument's values

    maintenance: Callable[[], FamilyMaintenance[Ops]] | None = None  # export, import, checks: loaded when needed

    # The life of a server
    prepare: Callable[[Ops, Sequence[str]], None] | None = None
    """Done before the first call, with the users there are. If it raises Unavailable, the other families serve."""
    start: Callable[[Ops], None] | None = None  # work in the background
    stop: Callable[[Ops], None] | None = None
    housekeeping: Callable[[Ops], None] | None = None  # done every minute by a server over HTTP

    # Home, references, and one search over everything
    counts: Callable[[Ops, Caller], Mapping[str, int]] | None = None
    """How much is stored, by what it is. None of it is read for that."""
    last_writes: Callable[[Ops, Caller, int], Iterable[LastWrite]] | None = None  # as many as wanted, the last first
    references: References[Ops] | None = None
    sizes: Callable[[Ops, Caller], Iterable[GroupSize]] | None = None
    """How much is in each of its groups, in any order. None of it is read for that."""
    groups: Callable[[Ops, Caller], Iterable[Group]] | None = None  # the texts that recall indexes
    search: Callable[[Call[Ops], TextQuery], Iterable[Match]] | None = None  # what recall finds without its index
    on_purge: Callable[[Ops, Purge], None] | None = None
    """Have a function called once texts are deleted that must not stay in recall's index until its next search."""

    def tool(
        self,
        arguments: type[A],
        *,
        answers: type[Any],
        title: str,
        needs: Scope,
        destructive: bool = False,
        idempotent: bool = False,
        spec_name: str | None = None,
        changes_session: bool = False,
        makes_files: bool = False,
        app_only: bool = False,
        summary: Callable[[Any], str] | None = None,
        without_read: Iterable[str] | None = None,
        audit: Callable[[A, Any], Mapping[str, Any]] | None = None,
        **meta: Any,
    ) -> Callable[[Callable[[Call[Ops], A], Any]], Callable[[Call[Ops], A], Any]]:
        """Offer a function as a tool. Tool says what each option means."""

        def offer(run: Callable[[Call[Ops], A], Any]) -> Callable[[Call[Ops], A], Any]:
            self.tools[run.__name__] = Tool(
                *(run, self.name, title, needs, arguments, answers),
                destructive=destructive,
                idempotent=idempotent,
                makes_files=makes_files,
                spec_name=spec_name,
                changes_session=changes_session,
                spells_out_answers=self.spells_out_answers,
                spells_out_bounds=self.spells_out_bounds,
                app_only=app_only,
                summary=summary,
                audit=audit,
                without_read=None if without_read is None else frozenset(without_read),
                own_meta=meta,
            )
            return run

        return offer


@dataclass(frozen=True)
class OpenFamily(Generic[Ops]):
    """A family, and what it can do with the files it has opened."""

    family: Family[Ops]
    operations: Ops


def position_number(position: str | None) -> int:
    """A position that is a number; 0 at the start. Raises Invalid for another cursor than ours."""
    if not is_number(position or "0"):
        raise bad_cursor()
    return int(position or 0)


def is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 17


def decoded(part: str) -> str:
    """A percent-encoded part of an address. Raises NotFound if it is none."""
    try:
        return unicodedata.normalize("NFC", unquote(part, errors="strict"))
    except UnicodeDecodeError:
        raise NotFound("This address is not percent-encoded UTF-8.") from None


def bad_cursor() -> Invalid:
    return Invalid("This cursor is not one of ours. Start again without a cursor.", field="cursor")


T = TypeVar("T")


def within_budget(items: Iterable[T], size: Callable[[T], int], share: float = 1.0) -> list[T]:
    """As many items from the front as a model can take, but at least one: an item is never cut in two.

    `share` is for answers with several lists.
    """
    left = TOKEN_BUDGET * BYTES_PER_TOKEN * share
    shown: list[T] = []
    for item in items:
        left -= size(item)
        if left < 0 and shown:
            break
        shown.append(item)
    return shown
