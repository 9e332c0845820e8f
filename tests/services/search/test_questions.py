import pytest

from memory_mcp.services.search.questions import ENDING_BYTES, MAX_QUESTION_BYTES, has_question_mark, is_question


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("When did it rain?", True),
        ("When? \t\r\n", True),
        ("When did it rain? Yesterday.", False),
        ("", False),
        ("\u4f60\u597d\u5417\uff1f", True),
        ("\u0645\u062a\u0649\u061f", True),
        ("?" + " " * (ENDING_BYTES - 1), True),
        ("?" + " " * ENDING_BYTES, False),  # too many blanks
        ("x" * (MAX_QUESTION_BYTES - 1) + "?", True),
        ("x" * MAX_QUESTION_BYTES + "?", False),
    ],
)
def test_a_question_ends_in_a_question_mark(text: str, expected: bool) -> None:
    assert is_question(text) == expected


@pytest.mark.parametrize("text", ["\u5417" * 40 + "\uff1f ", "\u5417" * 40])
def test_its_last_bytes_are_enough_even_if_they_begin_within_a_character(text: str) -> None:
    for count in range(10, ENDING_BYTES):
        assert has_question_mark(text.encode()[-count:]) == is_question(text)
