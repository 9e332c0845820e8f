"""The part of a text that shows why it was found."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_mcp.services.search import snippets

FILLER = "Nothing of any interest stands here, and it goes on like that for quite a while. " * 40
MAX_BYTES = snippets.MAX_BYTES + 2 * len("…".encode())


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
        shown = snippets.excerpt(text, query)
        assert match in shown


def test_a_snippet_shows_the_greatest_number_of_words() -> None:
    text = f"a wombat here {FILLER} the shed there {FILLER} the wombat in the shed {FILLER} wombat again"

    shown = snippets.excerpt(text, "wombat shed")
    assert "the wombat in the shed" in shown


def test_of_equal_matches_the_first_is_shown() -> None:
    shown = snippets.excerpt(f"first wombat {FILLER} second wombat", "wombat")

    assert shown.startswith("first wombat")


@pytest.mark.parametrize("query", ["quokka", "", "?!", "womb"])
def test_without_a_match_the_nearest_part_is_shown(query: str) -> None:
    assert snippets.excerpt("the wombat sleeps", query) == "the wombat sleeps"
    assert snippets.excerpt(FILLER, query).startswith("Nothing of any interest")
    assert snippets.excerpt(f"{FILLER}the end", query, len(FILLER)) == "…the end"


def test_stop_words_do_not_choose_the_snippet() -> None:
    shown = snippets.excerpt(f"what is the {FILLER} wombat", "what is the wombat")

    assert shown.endswith("wombat")


def test_a_short_text_is_shown_whole() -> None:
    text = "# Wombats\n\n- sleep\n- dig"
    assert snippets.excerpt(f"\n{text}\n", "wombat") == snippets.excerpt(text, "quokka") == text
    whole = "é" * (snippets.MAX_BYTES // 2)
    assert snippets.excerpt(whole, "wombat") == whole
    assert len(snippets.excerpt(whole + "é", "wombat").encode()) <= MAX_BYTES
    assert snippets.beginning("  the\nwombat ") == "the wombat"
    assert snippets.beginning("") == ""


def test_of_a_long_text_the_best_passages_are_shown_whole_and_in_order() -> None:
    first, second = "The wombat digs at night.", "In the shed there is a spade."
    text = f"{FILLER}\n{second}\n{FILLER}\n{first}\nIt is seldom seen.\n{FILLER}"
    shown = snippets.excerpt(text, "wombat shed")
    assert second in shown
    assert f"{first}\nIt is seldom seen." in shown, "what follows often is the answer"
    assert shown.index(second) < shown.index(first)
    assert snippets.GAP in shown


def test_text_without_spaces_is_cut_between_characters() -> None:
    text = "备份" * 300 + "袋熊" + "策略" * 300
    shown = snippets.excerpt(text, "袋熊")
    assert "袋熊" in shown
    assert all(part in text for part in shown.strip("…").split(snippets.GAP))


def test_omissions_are_marked() -> None:
    for shown in (snippets.excerpt(f"{FILLER} wombat {FILLER}", "wombat"), snippets.beginning(FILLER, 100)):
        assert shown.startswith("…")
        assert shown.endswith("…")
    assert snippets.beginning(FILLER).startswith("Nothing of any interest")
    assert snippets.beginning(FILLER).endswith("…")
    assert not snippets.beginning(FILLER, len(FILLER) - 30).endswith("…")


def test_a_snippet_is_cut_between_words() -> None:
    shown = snippets.excerpt(f"{FILLER} wombat {FILLER}", "wombat")

    assert set(shown.strip("…").split()) <= {*FILLER.split(), "wombat"}


anything = st.text(
    st.one_of(st.sampled_from("ab é备份🎉 \n\u0301"), st.characters(exclude_categories=["Cs"])), max_size=400
)


@given(anything, anything)
def test_a_snippet_is_part_of_its_text(text: str, query: str) -> None:
    plain = " ".join(text.split())
    for shown in (snippets.excerpt(text * 9, query), snippets.excerpt(text, query), snippets.beginning(text)):
        for passage in shown.removeprefix("…").removesuffix("…").split(snippets.GAP):
            assert " ".join(passage.split()) in " ".join((text * 9).split())
        assert len(shown.encode()) <= MAX_BYTES
    if len(text.encode()) <= snippets.MAX_BYTES:
        assert " ".join(snippets.excerpt(text, query).split()) == plain


words = st.text("abcdefgh", min_size=1, max_size=8)


@given(st.lists(words, max_size=200), st.integers(0, 200))
def test_a_word_anywhere_is_shown(others: list[str], at: int) -> None:
    shown = snippets.excerpt(" ".join([*others[:at], "wombat", *others[at:]]), "wombats")

    assert "wombat" in shown.split()
