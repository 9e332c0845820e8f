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
from memory_mcp.progress import ReportProgress, report_nothing
from memory_mcp.text.names import check_readable

if TYPE_CHECKING:
    from memory_mcp.engines.sqlite.database_kind import DatabaseKind
    from memory_mcp.families.context import Context
    from memory_mcp.families.maintenance import FamilyMaintenance
    from memory_mcp.families.references import GroupSize, References
    from memory_mcp.families.writes import Journal
    from memory_mcp.services.sessions import Session

TOKEN_BUDGET = 20_000  # of one answer
BYTES_PER_TOKEN = 4  # of texts in JSON


READABLE = AfterValidator(check_readable)
"""Marks an argument that names something new. Arguments that only find things accept every existing name."""


LEFT_OUT = Field(exclude_if=lambda value: value is None)
"""Marks a field of an answer that is left out when it has no value. Other fields are null then."""

OriginText = Annotated[str | None, LEFT_OUT]
"""A field of answers: who last wrote a memory, such as `cursor with key laptop`. Not known of what was written before
there was a journal of writes."""

Notice = Annotated[str | None, LEFT_OUT, Field(description="What was left out, and what to do about it.")]
"""A field of answers that may be incomplete."""


class Arguments(BaseModel):
    """Base of every tool's arguments: strict types, no unknown fields. The server has coerced the values before."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


A = TypeVar("A", bound=Arguments)
Ops = TypeVar("Ops")
"""The operations of a family: the object that its `open` returns, such as a Vault."""


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
    makes_files: bool  # it writes files, although it changes no memory
    spec_name: str | None  # its name in its specification, where some clients do not accept that one
    changes_session: bool  # it changes what later calls of its session mean
    spells_out_answers: bool  # in tools/list; docs/tools.md always does
    spells_out_bounds: bool
    app_only: bool  # for a page that a host shows (MCP Apps), not for its model
    summary: Callable[[Any], str] | None  # the answer in one line, for people
    audit: Callable[[Any, Any], Mapping[str, Any]] | None
    """From arguments and answer, the details of a deletion for the audit log. None: its arguments, which must not
    contain the deleted content."""
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
        """Whether it changes no memory."""
        return self.needs is Scope.READ

    @property
    def changes_nothing(self) -> bool:
        """Whether it writes nothing: no memory, and no file."""
        return self.reads_only and not self.makes_files

    @property
    def deletes(self) -> bool:
        return self.needs is Scope.DELETE or (self.needs is Scope.LINK and self.destructive)

    @cached_property
    def answers(self) -> TypeAdapter[Any]:
        """Built when it is first needed, so that servers start fast."""
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
    write: Callable[[Call[Any], Mapping[str, str]], str]
    needs: frozenset[Scope] = frozenset({Scope.READ})  # for the tools that it names


@dataclass(frozen=True)
class Document:
    """The content of a resource."""

    uri: str
    text: str
    mime_type: str = "application/json"
    meta: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ListedResource:
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
    """When one memory was last written."""

    ref: str  # the address or path that opens it
    title: str
    at: str  # ISO 8601


@dataclass(frozen=True)
class ResourcePage:
    resources: Sequence[ListedResource]
    next_cursor: str | None = None  # of this family; None on the last page


def _refuse_read(call: Call[Any], uri: str) -> Document:
    raise NotFound("No resource has this address.", hint="resources/list shows what there is.")


@dataclass(frozen=True)
class Family(Generic[Ops]):
    """The declaration of a family. `errors` is how its specification wants errors encoded."""

    name: str
    purpose: str  # in the server's instructions, without names of tools
    main_tools: tuple[str, ...]  # that the instructions name, of those a connection has
    errors: Literal["json-rpc", "tool-result"]
    uri_prefixes: tuple[str, ...]  # which resources are this family's
    open: Callable[[Context], Ops]  # a file that it opens is closed by the context
    databases: tuple[DatabaseKind, ...] = ()  # its SQLite files, including caches
    spells_out_answers: bool = False  # its specification prescribes the output schemas; others are kept short
    spells_out_bounds: bool = False  # tools/list has the lower bounds and defaults of its arguments
    is_confinable: bool = False  # it keeps to the namespace of a caller who is confined to one
    is_listed_first: bool = False  # in tools/list
    tools: dict[str, Tool] = field(default_factory=dict)
    prompts: tuple[Prompt, ...] = ()
    templates: tuple[Template, ...] = ()
    list_resources: Callable[[Call[Ops], str | None, int], ResourcePage] = lambda call, cursor, limit: ResourcePage(())
    """At most `limit` resources after a cursor of this family; without a cursor, the first ones."""
    read_resource: Callable[[Call[Ops], str], Document] = _refuse_read
    subscription_uri: Callable[[Call[Ops], str], str | None] = lambda call, uri: None
    """The address under which changes of a resource are published; None if the caller may not see them."""
    complete: Callable[[Call[Ops], str, str], Sequence[str]] = lambda call, name, value: ()  # an argument's values

    part_of: str | None = None
    """The family without which a caller does not have this one. None: a caller has it by its own name."""
    maintenance: Callable[[], FamilyMaintenance[Ops]] | None = None  # export, import, checks: loaded when needed

    # Start and stop of a server
    prepare: Callable[[Ops, Sequence[str]], None] | None = None
    """Called before the first call, with all users' ids. If it raises Unavailable, only this family is not served."""
    start: Callable[[Ops], None] | None = None  # work in the background
    stop: Callable[[Ops], None] | None = None
    housekeeping: Callable[[Ops], None] | None = None  # done every minute by a server over HTTP

    # Home, references and recall
    counts: Callable[[Ops, Caller], Mapping[str, int]] | None = None
    """How many memories of each kind are stored. Must be fast: it reads no memory."""
    last_writes: Callable[[Ops, Caller, int], Iterable[LastWrite]] | None = None  # as many as wanted, the last first
    references: References[Ops] | None = None
    journals: Callable[[Ops, Caller], Iterable[Journal]] | None = None  # of the writes to its memories
    sizes: Callable[[Ops, Caller], Iterable[GroupSize]] | None = None
    """How many memories each of its groups has, in any order. Must be fast, as `counts`."""
    groups: Callable[[Ops, Caller], Iterable[Group]] | None = None  # the texts that recall indexes
    search: Callable[[Call[Ops], TextQuery], Iterable[Match]] | None = None  # what recall finds without its index
    on_purge: Callable[[Ops, Purge], None] | None = None
    """Registers a function to call when texts are deleted that must leave recall's index at once."""

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
        """Decorator: make a function a tool. `Tool` describes the options."""

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
    """A family and its operations, on the files that it has opened."""

    family: Family[Ops]
    operations: Ops


def parse_number_cursor(cursor: str | None) -> int:
    """The number that a cursor is; 0 without one. Raises Invalid for a cursor that this server did not create."""
    if not is_number(cursor or "0"):
        raise bad_cursor()
    return int(cursor or 0)


def is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 17


def decoded(part: str) -> str:
    """A percent-encoded part of an address, decoded. Raises NotFound if it is malformed."""
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
