"""What is wrong with a value that pydantic refused, in our words: what to give instead, and what was given."""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from memory_mcp.text.names import visible

MAX_GIVEN_CHARS = 40  # of a value, quoted in a message
MAX_READ_CHARS = 1000  # of a longer value, whose rest no message quotes
MAX_GIVEN_NUMBER = 10**MAX_GIVEN_CHARS
SECRET_FIELDS = frozenset({"password", "secret", "token"})  # whose values no message quotes
_KEY = re.compile(r"mmcp_[A-Za-z0-9_-]*")

ErrorContext = Mapping[str, Any]
"""Of an error: the bounds, under pydantic's names, and what was given as `given` and `input`."""

SENTENCES: dict[str, str | Callable[[ErrorContext], str]] = {
    "missing": "give it, it is required",
    "missing_argument": "give it, it is required",
    "extra_forbidden": "there is no such field; leave it out",
    "string_type": "give a text, not {given}",
    "string_unicode": "give a text in UTF-8",
    "int_type": "give a whole number, not {given}",
    "int_from_float": "give a whole number, not {given}",
    "int_parsing": "give a whole number, not {given}",
    "int_parsing_size": "give a smaller number",
    "float_type": "give a number, not {given}",
    "float_parsing": "give a number, not {given}",
    "finite_number": "give a finite number, not {given}",
    "bool_type": "give true or false, not {given}",
    "bool_parsing": "give true or false, not {given}",
    "list_type": "give a list, not {given}",
    "tuple_type": "give a list, not {given}",
    "set_type": "give a list, not {given}",
    "dict_type": "give an object, not {given}",
    "model_type": "give an object, not {given}",
    "model_attributes_type": "give an object, not {given}",
    "dataclass_type": "give an object, not {given}",
    "none_required": "leave it out",
    "literal_error": "give {expected}, not {given}",
    "enum": "give {expected}, not {given}",
    "string_too_short": lambda context: f"give at least {_count(context['min_length'], 'character')}",
    "string_too_long": lambda context: (
        f"give at most {_count(context['max_length'], 'character')}, not {len(context['input']):,}"
    ),
    "too_short": lambda context: f"give at least {_count(context['min_length'], 'item')}",
    "too_long": lambda context: f"give at most {_count(context['max_length'], 'item')} at a time",
    "greater_than_equal": "give {ge} or more, not {given}",
    "greater_than": "give more than {gt}, not {given}",
    "less_than_equal": "give {le} or less, not {given}",
    "less_than": "give less than {lt}, not {given}",
    "string_pattern_mismatch": "give a text of the form {pattern}, not {given}",
    "value_error": lambda context: str(context["error"]).rstrip("."),
    "assertion_error": lambda context: str(context["error"]).rstrip("."),
    "json_invalid": "give valid JSON",
    "url_parsing": "give an address such as https://example.com, not {given}",
    "path_type": "give a path, not {given}",
}
"""By pydantic's type of an error. A test goes over all that the tools can raise."""

DEFAULT_SENTENCE = "this value does not fit; give another one than {given}"


def sentence(error: Mapping[str, Any], *, is_secret: bool = False) -> str:
    """What to do about one of `ValidationError.errors()`, without a full stop and without the name of its field."""
    value = error.get("input")
    is_secret = is_secret or not SECRET_FIELDS.isdisjoint(map(str, error["loc"]))
    context = {**(error.get("ctx") or {}), "given": "what was given" if is_secret else shown(value), "input": value}
    found = SENTENCES.get(error["type"], DEFAULT_SENTENCE)
    return found(context) if callable(found) else found.format_map(context)


def shown(value: Any) -> str:
    """A value, as a message quotes it: the beginning of a text, and nothing of lists and objects. Keys are masked."""
    if isinstance(value, list | tuple | set | frozenset):
        return "a list"
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, int) and abs(value) > MAX_GIVEN_NUMBER:
        return "a number of many digits"
    if value is None or isinstance(value, bool | int | float | str):
        beginning = visible(value[:MAX_READ_CHARS]) if isinstance(value, str) else value
        text = _KEY.sub("mmcp_***", json.dumps(beginning, ensure_ascii=False))
        return text if len(text) <= MAX_GIVEN_CHARS else f"{text[: MAX_GIVEN_CHARS - 1]}…"
    return "a value of another kind"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"
