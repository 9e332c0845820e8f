"""What a room offers to the doors: tools, prompts, resources and completions, as plain values that know no protocol.

Everything a tool needs at its entry (scope, argument bounds) and its exit (result shape, how errors are told) is
declared here and done once, by the door.
"""

from __future__ import annotations

import threading
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar
from urllib.parse import unquote

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter

from memory_mcp.caller import Caller, Scope
from memory_mcp.errors import Invalid, NotFound
from memory_mcp.names import check_readable

if TYPE_CHECKING:
    from memory_mcp.app import App
    from memory_mcp.sessions import Session

TOKEN_BUDGET = 20_000  # what one answer may cost a model
BYTES_PER_TOKEN = 4  # of texts in JSON


def _whole(value: object) -> object:
    """10.0 is an integer to JSON Schema, and to clients whose language has one kind of number."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


AS_WHOLE = BeforeValidator(_whole)
Whole = Annotated[int, AS_WHOLE]
"""Bounds stand before AS_WHOLE, or on the field: after it, JSON Schema does not show them."""


READABLE = AfterValidator(check_readable)
"""Marks the argument that names something new. Arguments that only find things take every name that exists."""


LEFT_OUT = Field(exclude_if=lambda value: value is None)
"""Marks a field of an answer that is not there when it has no value. Every other one is null then."""

Notice = Annotated[str | None, LEFT_OUT, Field(description="What was left out, and what to do about it.")]
"""Of an answer that is not whole."""


class Arguments(BaseModel):
    """Base of every tool's arguments: strict types, nothing unknown."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


A = TypeVar("A", bound=Arguments)
Progress = Callable[[float, float | None, str | None], None]


@dataclass(frozen=True)
class Call:
    """One call on its way in: who makes it, in which session, and a line back."""

    app: App
    caller: Caller
    session: Session
    progress: Progress = lambda done, total, message: None
    cancelled: threading.Event = field(default_factory=threading.Event)


@dataclass(frozen=True)
class Tool:
    name: str
    title: str
    description: str
    family: str
    needs: Scope
    arguments: type[Arguments]
    returns: type[Any]
    run: Callable[[Call, Any], Any]
    reads_only: bool  # of what is kept here
    changes_nothing: bool  # anywhere: no file is made either
    destructive: bool
    idempotent: bool
    spec_name: str | None  # what its specification calls it, where that is no name for every client
    steers: bool  # it changes what later calls of its session mean
    meta: Mapping[str, Any]
    spells_out_answers: bool  # in tools/list; docs/tools.md always does
    spells_out_bounds: bool
    app_only: bool = False  # for a page that a host shows (MCP Apps), not for its model
    summary: Callable[[Any], str] | None = None  # the answer in a line for people, beside the answer itself
    audit: Callable[[Any, Any], Mapping[str, Any]] | None = None  # of arguments and answer, what the audit log keeps
    without_read: frozenset[str] | None = None  # what a caller who may not read sees of the answer; None: all of it

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
class Text:
    """One thing a family keeps, as one search over everything reads it."""

    ref: str  # the address or path that opens it
    title: str  # as it is shown
    content: str
    tags: tuple[str, ...] = ()
    name: str | None = None  # what it is found by beside its content, where that is not the title


@dataclass(frozen=True)
class LastWrite:
    """When one thing that a family keeps was last written."""

    ref: str  # the address or path that opens it
    title: str
    at: str  # ISO 8601


@dataclass(frozen=True)
class Group:
    """Some of a family's texts: those of a store, a project, a portal."""

    name: str
    versions: Callable[[], Mapping[str, str]]
    """By the key of each text, something that changes whenever the text does. May take a while."""
    texts: Callable[[Sequence[str]], Iterable[Text | None]]
    """The texts of some keys; None of one that is gone by now."""
    version: str | None = None  # that of the whole group, where it can be told without looking at each


Groups = Callable[[Caller], Iterable[Group]]
"""All that a family keeps for a caller."""


@dataclass(frozen=True)
class ResourcePage:
    resources: Sequence[Listed]
    next_position: str | None = None  # where the next page starts; None on the last


def _nothing_to_read(call: Call, uri: str) -> Document:
    raise NotFound("No resource has this address. resources/list shows what there is.")


@dataclass(frozen=True)
class Family:
    """A room's offering. `errors` says how its specification wants errors told."""

    name: str
    purpose: str  # one line in the server's instructions
    errors: Literal["json-rpc", "tool-result"]
    uri_prefixes: tuple[str, ...]  # which resources are this family's
    spells_out_answers: bool = False  # its specification prescribes the output schemas; others are kept short
    spells_out_bounds: bool = False  # tools/list says of its arguments what may not be empty, and what is off
    is_confinable: bool = False  # it keeps to the namespace of a caller who is confined to one
    tools: dict[str, Tool] = field(default_factory=dict)
    prompts: tuple[Prompt, ...] = ()
    templates: tuple[Template, ...] = ()
    list_resources: Callable[[Call, str | None], ResourcePage] = lambda call, position: ResourcePage(())
    read_resource: Callable[[Call, str], Document] = _nothing_to_read
    watched: Callable[[Call, str], str | None] = lambda call, uri: None
    """The address under which changes of a resource are told; None if the caller may not learn of them."""
    complete: Callable[[Call, str, str], Sequence[str]] = lambda call, name, value: ()  # an argument's values

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
        steers: bool = False,
        makes_files: bool = False,
        app_only: bool = False,
        summary: Callable[[Any], str] | None = None,
        without_read: Iterable[str] | None = None,
        audit: Callable[[A, Any], Mapping[str, Any]] | None = None,
        **meta: Any,
    ) -> Callable[[Callable[[Call, A], Any]], Callable[[Call, A], Any]]:
        """Offer a function as a tool. Its name is the tool's name, its docstring what the model reads.

        `without_read` is for a tool whose answer shows what was stored before: the fields, such as ids and times, that
        a caller without read_memory gets. Fields the call itself sets are shown as well. `audit` gives the details that
        the audit log keeps of a deletion, where its arguments hold what was deleted.
        """

        def offer(run: Callable[[Call, A], Any]) -> Callable[[Call, A], Any]:
            self.tools[run.__name__] = Tool(
                name=run.__name__,
                title=title,
                description=" ".join((run.__doc__ or "").split()),
                family=self.name,
                needs=needs,
                arguments=arguments,
                returns=answers,
                run=run,
                reads_only=needs is Scope.READ,
                changes_nothing=needs is Scope.READ and not makes_files,
                destructive=destructive,
                idempotent=idempotent,
                spec_name=spec_name,
                steers=steers,
                meta={"family": self.name, "scope": needs.value, **meta},
                spells_out_answers=self.spells_out_answers,
                spells_out_bounds=self.spells_out_bounds,
                app_only=app_only,
                summary=summary,
                audit=audit,
                without_read=None if without_read is None else frozenset(without_read),
            )
            return run

        return offer


def position_number(position: str | None) -> int:
    """A position that is a number; 0 at the start. Raises Invalid for a cursor somebody made up."""
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
