"""Arguments of calls: bounded, normalised, then validated by the tool's model."""

import math
import unicodedata
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from memory_mcp.errors import Invalid, shorten
from memory_mcp.families.family import Arguments, Prompt, Tool

MAX_FIELD_BYTES = 1024 * 1024  # of one field
MAX_LEVELS = 100  # levels of objects and lists in one call


def parse(tool: Tool, given: Mapping[str, Any] | None) -> Arguments:
    """Raises Invalid naming the first field that does not fit."""
    cleaned = _cleaned(dict(given or {}), "", 0)
    try:
        return tool.arguments.model_validate(cleaned)
    except ValidationError as exc:
        first = exc.errors(include_url=False, include_context=False, include_input=False)[0]
        field = shorten(".".join(map(str, first["loc"])))
        message = "Input should be an object" if first["type"] == "model_type" else first["msg"]
        raise Invalid(f"{field}: {message}.", field=field) from exc


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
        shown = ascii(shorten(field))
        raise Invalid(f"{shown} holds half of a surrogate pair, which is not text.", field=shown) from exc
    if size > MAX_FIELD_BYTES:
        raise Invalid(
            f"{shorten(field)} is {size} bytes; at most {MAX_FIELD_BYTES} (1 MiB) fit. Split it into several memories.",
            code="too_large",
            field=field,
            limit=MAX_FIELD_BYTES,
        )
    return unicodedata.normalize("NFC", value)
