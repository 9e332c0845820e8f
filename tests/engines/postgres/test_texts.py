"""A full-text index in PostgreSQL finds and ranks as FTS5 does."""

import random
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from memory_mcp.engines.postgres import texts as postgres_texts
from memory_mcp.engines.postgres import words
from memory_mcp.engines.postgres.tenants import PostgresTenants
from memory_mcp.engines.sqlite import Database
from memory_mcp.engines.texts import Allowed, Texts
from memory_mcp.engines.transactions import Read, Write
from memory_mcp.families.notes.schema import SCHEMA
from memory_mcp.families.notes.storage.index import TABLES

WORDS = [
    "backup",
    "policy",
    "nightly",
    "restore",
    "camel",
    "Case",
    "database",
    "running",
    "ran",
    "字",
    "wombat's",
    "O'Brien",
    "back\\slash",
]
TERMS = ['"backup"', '"wombat"', '"run"', '"camel Case"', '"字"', '"missing"', '"o brien"']
EXPRESSIONS = (
    "backup",
    "backup AND policy",
    "backup OR wombat",
    "backup NOT policy",
    '"backup policy"',
    "resto*",
    "{title content tags} : backup",
    "- {context} : nightly",
    "NEAR(backup wombat, 3)",
    "(backup OR policy) AND nightly",
    "^backup",
    "context : ^back*",
    "^backup + poli*",
)
INSERT = """
    INSERT INTO notes (id, user_id, title, has_own_title, title_key, content, content_key, source, created_at,
        updated_at)
    VALUES (:id, '', '', 0, '', '', :key, 'mcp', '', '') RETURNING seq
"""


def fill(tx: Write) -> None:
    chosen = random.Random(5)
    for number in range(120):
        seq = tx.number(INSERT, {"id": str(number), "key": b""})
        texts = {
            column.name: " ".join(chosen.choices(WORDS, k=chosen.randint(0, 12))) for column in TABLES.words.columns
        }
        tx.texts(TABLES.words).insert(seq, texts)


@pytest.fixture
def both(tenants: PostgresTenants, tmp_path: Path) -> Iterator[tuple[Read, Read]]:
    with closing(Database(tmp_path / "notes.db", SCHEMA, backups=tmp_path)) as file:
        for database in (file, tenants.database("ada")):
            with database.write() as tx:
                fill(tx)
        with tenants.database("bob").write() as tx:
            fill(tx)  # what another tenant has changes no rank
        with file.read() as sqlite, tenants.database("ada").read() as postgres:
            yield sqlite, postgres


def indexes(
    both: tuple[Read, Read], allowed: Allowed | None = None, *, is_confined: bool = False
) -> tuple[Texts, Texts]:
    sqlite, postgres = (tx.texts(TABLES.words, allowed, is_confined=is_confined) for tx in both)
    return sqlite, postgres


ALLOWED = Allowed.only(range(1, 60), 120)


@pytest.mark.parametrize("allowed", [None, ALLOWED])
def test_terms_are_counted_alike(both: tuple[Read, Read], allowed: Allowed | None) -> None:
    sqlite, postgres = indexes(both, allowed)
    assert sqlite.documents() == postgres.documents()
    for limit in (5, 1000):
        assert sqlite.counts(TERMS, limit) == postgres.counts(TERMS, limit)
    assert sqlite.counts(TERMS, 1000)['"backup"'] > 10


@pytest.mark.parametrize(("allowed", "is_confined"), [(None, False), (ALLOWED, False), (ALLOWED, True)])
def test_matches_are_ranked_alike(both: tuple[Read, Read], allowed: Allowed | None, is_confined: bool) -> None:
    sqlite, postgres = indexes(both, allowed, is_confined=is_confined)
    for rare in (TERMS[:1], TERMS[:3], TERMS[4:6]):
        postgres.counts(rare, 1000)
        one, other = sqlite.best(rare, TERMS, 1000), postgres.best(rare, TERMS, 1000)
        assert other.bm25 == pytest.approx(one.bm25, rel=1e-9)
        assert other.holders == one.holders


@pytest.mark.parametrize("max_counted", [1000, 5])
def test_short_texts_with_the_rarest_words_are_ranked(
    both: tuple[Read, Read], monkeypatch: pytest.MonkeyPatch, max_counted: int
) -> None:
    """Whether the texts with a word are known since it was counted, or too many were found to list them."""
    monkeypatch.setattr(postgres_texts, "MIN_RANKED", 0)
    _, postgres = indexes(both)
    terms, limit = ['"backup"', '"run"'], 5
    postgres.counts(terms, max_counted)
    for rare in (terms, terms[:1]):
        every = " & ".join(words.phrase(term).query for term in rare)
        sql = "SELECT number, length FROM notes_words WHERE words @@ :query::tsquery ORDER BY length"
        lengths: dict[int, int] = dict(both[1].all(sql, {"query": every}))
        shortest = list(lengths.values())[: 3 * limit]
        assert len(lengths) > len(shortest) == 3 * limit
        found = postgres.best(rare, terms, limit).bm25
        assert len(found) == limit
        assert max(lengths[number] for number in found) <= shortest[-1]


def test_expressions_match_alike(both: tuple[Read, Read]) -> None:
    sqlite, postgres = indexes(both)
    for expression in EXPRESSIONS:
        one, other = sqlite.matching(expression, 1000), postgres.matching(expression, 1000)
        assert set(one) == set(other), expression
        assert one or expression == "missing"
    for expression in (*EXPRESSIONS[:4], "{title content tags} : backup"):
        one, other = sqlite.matching(expression, 1000), postgres.matching(expression, 1000)
        if "NOT" not in expression:  # FTS5 also counts the words that must not be there
            assert other == pytest.approx(one, rel=1e-9), expression


def test_deleted_texts_are_not_found(tenants: PostgresTenants) -> None:
    with tenants.database("ada").write() as tx:
        fill(tx)
        before = tx.texts(TABLES.words).documents()
        tx.texts(TABLES.words).delete(1)
        tx.all("DELETE FROM notes WHERE seq = 2")
        texts = tx.texts(TABLES.words)
        assert texts.documents() == before - 2
        assert not {1, 2} & set(texts.matching("backup OR policy OR nightly OR restore", 1000))
        [(rows, tokens)] = tx.all("SELECT count(*), sum(length) FROM notes_words")
        assert tx.all("SELECT texts, tokens FROM word_totals") == [(rows, tokens)]


def test_a_rank_of_one_word_is_a_sum_of_squares(postgres_server: str) -> None:
    """engines/postgres/texts.py computes frequencies from it."""
    with psycopg.connect(postgres_server) as connection:
        for count in (1, 2, 7, 254):
            positions = ",".join(f"{number}A" for number in range(1, count + 1))
            row = connection.execute(
                "SELECT ts_rank('{0,0,0,1}', %s::tsvector, 'x'), ts_rank('{0,0,0,1}', %s::tsvector, 'y')",
                (f"x:{positions}", f"x:{positions}"),
            ).fetchone()
            assert row
            assert row[0] == pytest.approx(sum(1 / n**2 for n in range(1, count + 1)) / 1.64493406685, rel=1e-5)
            assert row[1] < 1e-10
