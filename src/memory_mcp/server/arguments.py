"""Arguments of calls: taken as they are meant, bounded, normalised, then validated by the tool's model."""

import math
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any, get_args

from pydantic import ValidationError

from memory_mcp.errors import Invalid, shorten
from memory_mcp.families.family import Arguments, Prompt, Tool
from memory_mcp.server.argument_coercion import coerce_record
from memory_mcp.server.argument_names import canonical_name, fields_of, known_names
from memory_mcp.server.argument_references import FindOwner, resolve
from memory_mcp.text.nearness import nearest
from memory_mcp.text.validation import sentence

MAX_FIELD_BYTES = 1024 * 1024  # of one field
MAX_LEVELS = 100  # levels of objects and lists in one call


def parse(tool: Tool, given: Mapping[str, Any] | None, find_owner: FindOwner = lambda text: None) -> Arguments:
    """Raises Invalid naming the first field that is unknown or does not fit."""
    cleaned = _cleaned(coerce_record(tool.arguments, given or {}), "", 0)
    try:
        return tool.arguments.model_validate(resolve(tool, cleaned, find_owner))
    except ValidationError as exc:
        errors = exc.errors(include_url=False)
        raise _refusal(tool, next(filter(_is_unknown, errors), errors[0])) from exc


def _is_unknown(error: Mapping[str, Any]) -> bool:
    return bool(error["type"] == "extra_forbidden")


def _refusal(tool: Tool, error: Mapping[str, Any]) -> Invalid:
    field = shorten(".".join(map(str, error["loc"])))
    if _is_unknown(error):
        *above, name = map(str, error["loc"])
        return _unknown(tool, above, name, field)
    return Invalid(f"{field}: {sentence(error)}.", field=field)


def _unknown(tool: Tool, above: Sequence[str], name: str, field: str) -> Invalid:
    """The error for an argument, or a field of the record at the path `above`, that does not exist."""
    model = _model_at(tool.arguments, above)
    known = known_names(model)
    where = f"a field of {'.'.join(above)} in {tool.name}" if above else f"an argument of {tool.name}"
    refused = f"`{shorten(name)}` is not {where}"
    if outer := _field_that_holds(model, name):
        return Invalid(f"{refused}; give it in `{outer}`.", field=field)
    if near := nearest(name, known)[:1]:
        return Invalid(f"{refused}; did you mean `{near[0]}`?", field=field, nearest=near)
    listed = f"It takes {', '.join(f'`{one}`' for one in known)}." if known else "It takes none."
    return Invalid(f"{refused}. {listed}", field=field)


def _field_that_holds(model: type[Arguments], name: str) -> str | None:
    """The argument whose records have a field of this name."""
    records = {own: _record_in(field.annotation) for own, field in fields_of(model).items()}
    return next((own for own, record in records.items() if record and canonical_name(record, name)), None)


def _model_at(model: type[Arguments], path: Sequence[str]) -> type[Arguments]:
    """The model of the record at this path, in which numbers are indexes of lists."""
    for part in path:
        fields = fields_of(model)
        model = (_record_in(fields[part].annotation) if part in fields else None) or model
    return model


def _record_in(annotation: Any) -> type[Arguments] | None:
    if isinstance(annotation, type) and issubclass(annotation, Arguments):
        return annotation
    return next(filter(None, map(_record_in, get_args(annotation))), None)


def parse_prompt(prompt: Prompt, given: Mapping[str, str] | None) -> dict[str, str]:
    """A prompt's arguments are texts. Raises Invalid naming the one that is missing or unknown."""
    texts = {name: _text(value, name) for name, value in (given or {}).items()}
    for name in texts.keys() - {argument.name for argument in prompt.arguments}:
        raise Invalid(f"{shorten(name)}: this prompt takes no such argument.", field=name)
    for argument in prompt.arguments:
        if argument.required and not texts.get(argument.name, "").strip():
            raise Invalid(f"{argument.name}: this prompt requires it.", field=argument.name)
    return texts


def _cleaned(value: Any, field: str, depth: int) -> Any:
    """Text in NFC, and only finite numbers. A list of numbers is not checked: a vector has thousands of items."""
    if isinstance(value, str):
        return _text(value, field)
    if isinstance(value, float) and not math.isfinite(value):
        raise Invalid(f"{shorten(field)} must be a finite number.", field=field)
    if depth > MAX_LEVELS:
        raise Invalid(f"{shorten(field)} is nested more than {MAX_LEVELS} deep.", field=field.split(".")[0])
    if isinstance(value, dict):
        cleaned = {
            _text(name, name): _cleaned(item, f"{field}.{name}" if field else name, depth + 1)
            for name, item in value.items()
        }
        if len(cleaned) < len(value):
            raise Invalid(
                f"{shorten(field)}: two names in here are one in NFC. Give one of them.", field=field.split(".")[0]
            )
        return cleaned
    if isinstance(value, list) and not all(type(item) is float or type(item) is int for item in value):
        return [_cleaned(item, f"{field}.{index}", depth + 1) for index, item in enumerate(value)]
    return value


def _text(value: str, field: str) -> str:
    try:
        size = len(value.encode())
    except UnicodeEncodeError as exc:
        shown = ascii(shorten(field))[1:-1]  # without quotes: the name itself may be the text with the half
        raise Invalid(f"{shown} holds half of a surrogate pair, which is not text.", field=shown) from exc
    if size > MAX_FIELD_BYTES:
        raise Invalid(
            f"{shorten(field)} is {size} bytes; at most {MAX_FIELD_BYTES} (1 MiB) fit. Split it into several memories.",
            code="too_large",
            field=field,
            limit=MAX_FIELD_BYTES,
        )
    return unicodedata.normalize("NFC", value)
