"""The part of a text that shows why it was found."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_mcp.search import snippets

FILLER = "Nothing of any interest stands here, and it goes on like that for quite a while. " * 40
MAX_BYTES = snippets.LENGTH + 2 * len("…".encode())


@pytest.mark.parametrize(
    ("match", "query"),
    [
        ("the wombat sleeps", "wombat"),
        ("several wombats were sleeping", "Which wombat sleeps?"),
        ("THE WOMBAT", "wombat"),
        ("a café on the corner", "cafe"),
        ("Crème brûlée", "creme BRULEE"),
        ("备份策略已经决定", "备份策略"),
        ("我们的设定在这里", "设定在哪里"),
        ("데이터베이스 백업", "백업"),
        ("हिन्दी में लिखा", "हिन्दी"),
        ("see src/app.py:17 there", "src/app.py:17"),
        ("party 🎉 time", "🎉"),
        ("call getUserName() there", "user"),
        ("ＦＵＬＬ width", "full"),
    ],
)
def test_a_snippet_shows_the_match_anywhere_in_the_text(match: str, query: str) -> None:
    for text in (
        match,
        f"{match} {FILLER}",
        f"{FILLER} {match} {FILLER}",
        f"{FILLER} {match}",
        f"{FILLER}\n\n{match}\n",
    ):
        shown = snippets.around(text, query)
        assert shown is not None
        assert match in shown


def test_a_snippet_shows_the_greatest_number_of_words() -> None:
    text = f"a wombat here {FILLER} the shed there {FILLER} the wombat in the shed {FILLER} wombat again"

    shown = snippets.around(text, "wombat shed")
    assert shown is not None
    assert "the wombat in the shed" in shown


def test_of_equal_matches_the_first_is_shown() -> None:
    shown = snippets.around(f"first wombat {FILLER} second wombat", "wombat")

    assert shown is not None
    assert shown.startswith("first wombat")


@pytest.mark.parametrize("query", ["quokka", "", "?!", "womb"])
def test_without_a_match_there_is_no_snippet(query: str) -> None:
    assert snippets.around("the wombat sleeps", query) is None


def test_stop_words_do_not_choose_the_snippet() -> None:
    shown = snippets.around(f"what is the {FILLER} wombat", "what is the wombat")

    assert shown is not None
    assert shown.endswith("wombat")


def test_a_short_text_is_shown_completely_on_one_line() -> None:
    assert snippets.around("the\n\twombat   sleeps\n", "wombat") == "the wombat sleeps"
    assert snippets.beginning("  the\nwombat ") == "the wombat"
    assert snippets.beginning("") == ""


def test_omissions_are_marked() -> None:
    for shown in (snippets.around(f"{FILLER} wombat {FILLER}", "wombat"), snippets.beginning(FILLER, 100)):
        assert shown is not None
        assert shown.startswith("…")
        assert shown.endswith("…")
    assert snippets.beginning(FILLER).startswith("Nothing of any interest")
    assert snippets.beginning(FILLER).endswith("…")
    assert not snippets.beginning(FILLER, len(FILLER) - 30).endswith("…")


def test_a_snippet_is_cut_between_words() -> None:
    shown = snippets.around(f"{FILLER} wombat {FILLER}", "wombat")

    assert shown is not None
    assert set(shown.strip("…").split()) <= {*FILLER.split(), "wombat"}


anything = st.text(
    st.one_of(st.sampled_from("ab é备份🎉 \n\u0301"), st.characters(exclude_categories=["Cs"])), max_size=400
)


@given(anything, anything)
def test_a_snippet_is_part_of_its_text(text: str, query: str) -> None:
    for shown in (snippets.around(text, query), snippets.beginning(text)):
        if shown is not None:
            assert shown.removeprefix("…").removesuffix("…") in " ".join(text.split())
            assert len(shown.encode()) <= MAX_BYTES


words = st.text("abcdefgh", min_size=1, max_size=8)


@given(st.lists(words, max_size=200), st.integers(0, 200))
def test_a_word_anywhere_is_shown(others: list[str], at: int) -> None:
    shown = snippets.around(" ".join([*others[:at], "wombat", *others[at:]]), "wombats")

    assert shown is not None
    assert "wombat" in shown.split()
