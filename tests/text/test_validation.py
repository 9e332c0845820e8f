"""What pydantic refuses is said in our words, and quotes no secret."""

from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, ValidationError
from pydantic_core._pydantic_core import list_all_errors

from memory_mcp import settings
from memory_mcp.errors import Invalid
from memory_mcp.text.validation import SENTENCES, sentence, shown


class Body(BaseModel):
    name: Annotated[str, Field(pattern="^[a-z]+$")] = "a"
    password: Annotated[str, Field(min_length=8, pattern="^[a-z]+$")] = "abcdefgh"
    when: Literal["now"] = "now"
    share: Annotated[float, Field(gt=0, lt=1)] = 0.5
    at: complex = 1j


def refused(**given: Any) -> str:
    with pytest.raises(ValidationError) as caught:
        Body.model_validate(given)
    return sentence(caught.value.errors()[0])


def test_each_line_is_for_an_error_of_pydantic() -> None:
    assert set(SENTENCES) <= {one["type"] for one in list_all_errors()} | {"path_type"}


def test_the_sentences() -> None:
    assert refused(name="A") == 'give a text of the form ^[a-z]+$, not "A"'
    assert refused(when="soon") == "give 'now', not \"soon\""
    assert refused(share=1) == "give less than 1.0, not 1"
    assert refused(share=0) == "give more than 0.0, not 0"
    assert refused(at=[]) == "this value does not fit; give another one than a list"  # no line, and still our words


def test_no_secret_is_quoted() -> None:
    assert refused(password="Password") == "give a text of the form ^[a-z]+$, not what was given"
    assert refused(password="x") == "give at least 8 characters"
    assert shown(f"Bearer mmcp_{'a' * 12}_{'b' * 43}") == '"Bearer mmcp_***"'
    with pytest.raises(Invalid) as caught:
        settings.load({"port": "many"}, environ={})
    assert caught.value.message == '--port: give a whole number, not "many".'


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a\u202eb", '"a\\\\u202eb"'),
        ("x" * 100, '"' + "x" * 38 + "…"),
        (10**50, "a number of many digits"),
        (float("nan"), "NaN"),
        ([1], "a list"),
        ({"a": 1}, "an object"),
        (None, "null"),
        (b"x", "a value of another kind"),
    ],
)
def test_values_are_quoted_in_short(value: Any, text: str) -> None:
    assert shown(value) == text
