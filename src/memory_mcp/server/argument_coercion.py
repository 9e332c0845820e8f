"""Arguments as they are meant: what models send in another form than the schema's, where it can mean only one thing.

A null is left out; a number or a boolean may be text, and 10.0 an integer; one value may stand for a list of one; a
list or an object may be JSON in a text; a record's fields may have other names. Text that is requested as text is never
changed.
"""

import json
import re
from collections.abc import Callable, Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from memory_mcp.errors import Invalid
from memory_mcp.families.family import Arguments
from memory_mcp.server.argument_names import canonical_name, fields_of

Coerce = Callable[[Any, str], Any]
"""Of a value and the path of its field. A value that does not fit is returned as it is: validation refuses it."""

_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,39})(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,4})?")
_BOOLEANS = {"true": True, "false": False}


def coerce_record(model: type[Arguments], given: Mapping[Any, Any], path: str = "") -> dict[Any, Any]:
    """The fields by their own names. Raises Invalid if one is given under two names with two values."""
    forms = _forms(model)
    values: dict[Any, Any] = {}
    spelled: dict[str, str] = {}
    for name, value in given.items():
        field = canonical_name(model, name) if isinstance(name, str) else None
        if field is None:
            values[name] = value  # unknown, and refused by validation
        elif value is not None:
            taken = forms[field].coerce(value, _join(path, field))
            if field in values and values[field] != taken:
                raise _two_values(path, field, spelled[field], name)
            values[field] = taken
            spelled[field] = name
    return values


class Form(NamedTuple):
    """How values of one type are taken."""

    coerce: Coerce
    is_own: Callable[[Any], bool]  # whether a value is of this type, and not a list of it
    is_from_text: bool = True  # whether it coerces nothing but text: a vector has thousands of numbers


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _coerce_nothing(value: Any, path: str) -> Any:
    return value


def _coerce_number(value: Any, path: str) -> Any:
    text = value.strip() if isinstance(value, str) else ""
    if not (found := _NUMBER.fullmatch(text)):
        return value
    return float(text) if found[2] or found[3] else int(text)


def _coerce_whole(value: Any, path: str) -> Any:
    """10.0 is an integer to JSON Schema, and to clients whose language has one kind of number."""
    value = _coerce_number(value, path)
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _coerce_boolean(value: Any, path: str) -> Any:
    return _BOOLEANS.get(value.strip().lower(), value) if isinstance(value, str) else value


def _coerce_object(value: Any, path: str) -> Any:
    parsed = _json(value, "{")
    return parsed if isinstance(parsed, dict) else value


@cache
def _forms(model: type[Arguments]) -> dict[str, Form]:
    return {name: _form(field.annotation) for name, field in fields_of(model).items()}


def _form(annotation: Any) -> Form:
    kind, inner = get_origin(annotation) or annotation, get_args(annotation)
    if kind is Annotated:
        return _form(inner[0])
    if kind in (Union, UnionType):
        options = [option for option in inner if option is not NoneType]
        return _form(options[0]) if len(options) == 1 else Form(_coerce_nothing, lambda value: False)
    if kind is Literal:
        return Form(_choice(inner), _is_text)
    if kind is list:
        return Form(_list(_form(inner[0])), lambda value: isinstance(value, list), is_from_text=False)
    if isinstance(kind, type) and issubclass(kind, Arguments):
        return Form(_record(kind), _is_object, is_from_text=False)
    return _PLAIN.get(kind, Form(_coerce_nothing, lambda value: False))


_PLAIN = {
    str: Form(_coerce_nothing, _is_text),
    int: Form(_coerce_whole, _is_number, is_from_text=False),
    float: Form(_coerce_number, _is_number),
    bool: Form(_coerce_boolean, lambda value: isinstance(value, bool)),
    dict: Form(_coerce_object, _is_object),
}


def _choice(options: tuple[Any, ...]) -> Coerce:
    folded = {option.casefold(): option for option in options if isinstance(option, str)}

    def coerce(value: Any, path: str) -> Any:
        return folded.get(value.strip().casefold(), value) if isinstance(value, str) else value

    return coerce


def _record(model: type[Arguments]) -> Coerce:
    def coerce(value: Any, path: str) -> Any:
        value = _coerce_object(value, path)
        return coerce_record(model, value, path) if isinstance(value, dict) else value

    return coerce


def _list(item: Form) -> Coerce:
    def coerce_items(values: list[Any], path: str) -> list[Any]:
        if item.is_from_text and not any(isinstance(value, str) for value in values):
            return values
        return [item.coerce(value, f"{path}.{index}") for index, value in enumerate(values)]

    def coerce(value: Any, path: str) -> Any:
        if isinstance(value, list):
            return coerce_items(value, path)
        parsed = _json(value, "[")
        if isinstance(parsed, list):
            items = coerce_items(parsed, path)
            if all(map(item.is_own, items)):
                return items
        [one] = coerce_items([value], path)
        return [one] if item.is_own(one) else value

    return coerce


def _json(value: Any, start: str) -> Any:
    """The value of a JSON text that starts with this character; None of anything else."""
    if not isinstance(value, str) or not value.lstrip().startswith(start):
        return None
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return None


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _two_values(path: str, field: str, first: str, second: str) -> Invalid:
    other = first if second == field else second
    names = f"{first} and {second}" if first != field and second != field else f"{field} and {other}"
    return Invalid(
        f"{_join(path, field)}: {names} mean the same here, and have two values. Give {field} alone.",
        field=_join(path, field),
    )
