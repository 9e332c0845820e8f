"""References in arguments: where a tool takes an id, a key, a path or a name, it takes a reference to it, too."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, get_args

from memory_mcp.caller import Caller
from memory_mcp.errors import Invalid, shorten
from memory_mcp.families.family import Arguments, Family, Tool
from memory_mcp.families.references import OPENER, TakesReference


@dataclass(frozen=True)
class ReferenceOwner:
    """The family that a reference belongs to."""

    family: str
    tools: list[str]  # that take it


FindOwner = Callable[[str], ReferenceOwner | None]


def find_owner(families: Mapping[str, Family[Any]], caller: Caller, text: str) -> ReferenceOwner | None:
    """The family of a reference, if the caller has it, with the tools that the caller has."""
    own = [family for family in families.values() if family.name in caller.families]
    for family in own:
        if family.references and text.startswith(family.references.prefixes):
            available = {name for one in own for name, tool in one.tools.items() if tool.needs in caller.scopes}
            return ReferenceOwner(family.name, [name for name in (family.references.tool, OPENER) if name in available])
    return None


def resolve(tool: Tool, given: dict[str, Any], find_owner: FindOwner) -> dict[str, Any]:
    """The arguments with the names that references in them stand for. A reference that names more, such as the store of
    a path, sets that argument, too. Raises Invalid if it has another value, and for a reference of another family."""
    if not _marks(tool.arguments):
        return given
    resolver = _Resolver(tool, find_owner)
    values = resolver.record(tool.arguments, given, "")
    for name, value in resolver.other_arguments.items():
        if values.setdefault(name, value) != value:
            raise Invalid(
                f"{name}: a reference in this call names {shorten(value)!r}, and {name} is another. Give one of them.",
                field=name,
            )
    return values


@dataclass
class _Resolver:
    tool: Tool
    find_owner: FindOwner
    other_arguments: dict[str, str] = field(default_factory=dict)  # values for them

    def record(self, model: type[Arguments], given: dict[str, Any], path: str) -> dict[str, Any]:
        marks = _marks(model)
        return {
            name: self._value(marks[name], value, f"{path}{name}") if name in marks else value
            for name, value in given.items()
        }

    def _value(self, mark: "_Mark", value: Any, path: str) -> Any:
        if isinstance(value, list):
            return [self._value(mark, one, f"{path}.{number}") for number, one in enumerate(value)]
        if isinstance(value, dict) and isinstance(mark, type):
            return self.record(mark, value, f"{path}.")
        if isinstance(value, str) and isinstance(mark, TakesReference):
            return self._name(mark, value, path)
        return value

    def _name(self, mark: TakesReference, text: str, path: str) -> str:
        found = mark.parse(text)
        if found is None:
            if not mark.may_be_new:
                self._refuse_foreign(text, path)
            return text
        if not found.other_arguments.keys() <= _names(self.tool.arguments):
            return text
        for name, value in found.other_arguments.items():
            if self.other_arguments.setdefault(name, value) != value:
                raise Invalid(f"{path}: all references of a call must name the same {name}.", field=path)
        return found.name

    def _refuse_foreign(self, text: str, path: str) -> None:
        owner = self.find_owner(text)
        if owner and owner.family != self.tool.family:
            raise Invalid(
                f"{path}: {shorten(text)!r} is a reference of {owner.family}, not of {self.tool.family}.",
                hint=f"{' or '.join(owner.tools)} takes it." if owner.tools else "",
                field=path,
            )


_Mark = TakesReference | type[Arguments]


@cache
def _marks(model: type[Arguments]) -> dict[str, _Mark]:
    """By the names of arguments, those that take references, and those that are records with such fields."""
    found = {info.alias or name: _mark(info.annotation, info.metadata) for name, info in model.model_fields.items()}
    return {name: mark for name, mark in found.items() if mark}


def _mark(annotation: Any, metadata: Any = ()) -> _Mark | None:
    if mark := next((one for one in metadata if isinstance(one, TakesReference)), None):
        return mark
    if isinstance(annotation, TakesReference):
        return annotation
    if isinstance(annotation, type) and issubclass(annotation, Arguments):
        return annotation if _marks(annotation) else None
    inner: list[_Mark | None] = [_mark(one) for one in get_args(annotation)]
    return next((mark for mark in inner if mark), None)


@cache
def _names(model: type[Arguments]) -> frozenset[str]:
    return frozenset(info.alias or name for name, info in model.model_fields.items())
