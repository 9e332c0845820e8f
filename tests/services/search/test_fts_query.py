import string

import apsw
from hypothesis import example, given
from hypothesis import strategies as st

from memory_mcp.services.search import fts_query

COLUMNS = ("key", "content", "tags")
index = apsw.Connection(":memory:")
index.execute(
    f"CREATE VIRTUAL TABLE notes USING fts5({', '.join(COLUMNS)}, tokenize='porter unicode61 remove_diacritics 2')"
)

syntax_bits = st.sampled_from(
    [*list('"*^(){}:+- '), " AND ", " OR ", " NOT ", "NEAR(", "key:", "tags :", "词", "é", "x"]
)
queries = st.one_of(st.text(), st.lists(syntax_bits, max_size=12).map("".join))


def search(expression: str) -> None:
    index.execute("SELECT rowid FROM notes WHERE notes MATCH ?", (expression,)).fetchall()


@given(queries)
def test_no_query_ever_fails(query: str) -> None:
    expression = fts_query.syntax(query, COLUMNS)
    if expression is not None:
        search(expression)
    if terms := fts_query.terms(query):
        search(fts_query.any_of(terms))


marks = st.sampled_from(string.punctuation + "—…。、「」“”🥑🎉→")
written = st.text(st.one_of(st.characters(categories=["L", "M", "N", "Z"]), marks), min_size=1)


@given(written)
@example("❶")
def test_text_is_found_by_itself(text: str) -> None:
    with index:
        index.execute("DELETE FROM notes")
        index.execute("INSERT INTO notes VALUES ('', ?, '')", (fts_query.spaced(text),))
        if terms := fts_query.terms(text):
            tokens = index.execute("SELECT 1 FROM notes WHERE notes MATCH ?", (fts_query.any_of(terms),)).fetchall()
            assert tokens or not any(character.isalnum() for character in text)


def test_stop_words_are_removed_unless_there_are_no_others() -> None:
    assert fts_query.terms("what did we decide about the backups?") == ['"decide"', '"backups"']
    assert fts_query.terms("to be or not to be") == ['"to"', '"be"', '"or"', '"not"']
    assert fts_query.terms("?!") == []


def test_camel_case_is_split_and_plain_words_are_not() -> None:
    assert fts_query.word_parts("getHTTPResponse2 plain snake_case") == "get HTTP Response 2"
    assert fts_query.terms("parseUrl") == ['"parseUrl"', '"parse Url"']


def test_a_cjk_run_is_searched_by_pairs() -> None:
    assert fts_query.terms("数据库") == ['"数 据"', '"据 库"']
    assert fts_query.terms("数") == ['"数"']
    assert fts_query.syntax("key:数据*", COLUMNS) == 'key:"数 据"*'


def test_plain_questions_are_not_syntax() -> None:
    for question in ("deploy plan (final version)", "what's new?", "a + b", "see http://x.y", "todo: milk"):
        assert fts_query.syntax(question, COLUMNS) is None
