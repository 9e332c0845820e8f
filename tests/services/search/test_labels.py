import pytest

from memory_mcp.services.search import labels
from memory_mcp.services.search.labels import label, words


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Ana: I moved to Rome", "Ana"),
        ("  - **Ana Ruiz:** I moved", "- **Ana Ruiz"),
        ("\u5b89\u5a1c\uff1a\u4f60\u597d", "\u5b89\u5a1c"),
        ("I moved to Rome", ""),
        ("I moved\nAna: when?", ""),
        (f"{'x' * 40}: this is a label", "x" * 40),
        (f"{'x' * 41}: this is none", ""),
        ("", ""),
    ],
)
def test_what_a_text_begins_with_before_a_colon_is_its_label(text: str, found: str) -> None:
    assert label(text) == found


@pytest.mark.parametrize(
    ("found", "query", "is_in"),
    [
        ("Ana", "Where did ana move to?", True),
        ("**Ana Ruiz", "Ruiz, or rather Ana's sister", True),
        ("Ana Ruiz", "Where did Ana move to?", False),
        ("What", "What did Ana say?", False),
        ("- ", "Where did Ana move to?", False),
        ("\u5b89\u5a1c", "\u5b89\u5a1c\u642c\u5230\u54ea\u91cc", True),
        ("\u5b89\u5a1c", "\u5b89\u642c\u5230\u54ea\u91cc", False),
    ],
)
def test_a_label_is_in_a_query_that_has_all_its_words(found: str, query: str, is_in: bool) -> None:
    assert labels.is_in_query(words(found), words(query)) == is_in
