"""The database knows how many texts contain each word, whatever was inserted and deleted before."""

import random
import shutil
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from memory_mcp.engines.postgres import migrations, word_counts, words
from memory_mcp.engines.postgres.migrations import BASE
from memory_mcp.engines.postgres.pool import PostgresPool
from memory_mcp.engines.postgres.tenants import AllTenants, PostgresTenants, write_all_tenants
from memory_mcp.engines.table_set import TableSet
from memory_mcp.engines.transactions import Read, Write
from memory_mcp.families.notes.storage.index import TABLES as NOTES
from tests.engines.postgres.conftest import TABLES
from tests.engines.postgres.test_texts import INSERT
from tests.postgres import new_database

WORDS = [f"word{number}" for number in range(60)]
COUNTS = """
    SELECT word, sum(texts) FROM (
        SELECT word, texts FROM memory.word_counts WHERE tenant = %(tenant)s
        UNION ALL
        SELECT unnest(tsvector_to_array(words)), texts FROM memory.word_changes WHERE tenant = %(tenant)s
    ) AS every GROUP BY word HAVING sum(texts) <> 0
"""
ACTUAL = """
    SELECT word, count(*) FROM memory_notes.notes_words_rows, unnest(tsvector_to_array(words)) AS word
    WHERE tenant = %(tenant)s GROUP BY word
"""


def counts_of(url: str, tenant: str) -> dict[str, int]:
    """As they are stored, after a comparison with the texts."""
    with psycopg.connect(url) as connection:
        stored: dict[str, int] = dict(connection.execute(COUNTS, {"tenant": tenant}).fetchall())
        assert stored == dict(connection.execute(ACTUAL, {"tenant": tenant}).fetchall())
        assert connection.execute("SELECT count(*) FROM memory.word_counts WHERE texts <= 0").fetchone() == (0,)
        changes = "SELECT count(*) FROM memory.word_changes AS one WHERE one.tenant = totals.tenant"
        rows = connection.execute(f"SELECT changes, ({changes}) FROM memory.word_totals AS totals".encode()).fetchall()
        assert all(changes == found for changes, found in rows)
    return stored


def add(tx: Write, chosen: random.Random, *extra: str) -> int:
    seq = tx.number(INSERT, {"id": str(chosen.random()), "key": b""})
    weights = [1 / rank for rank in range(1, len(WORDS) + 1)]
    content = " ".join([*chosen.choices(WORDS, weights, k=5), *extra])
    tx.texts(NOTES.words).insert(seq, {"title": "", "content": content, "tags": "", "parts": "", "context": ""})
    return seq


def looked_up(tx: Read, word: str) -> int:
    return tx.number("SELECT count(*) FROM notes_words WHERE words @@ :word::tsquery", {"word": words.quote(word)})


def test_counts_are_those_of_the_texts_after_any_writes(tenants: PostgresTenants, postgres_url: str) -> None:
    chosen = random.Random(7)
    ada, bob = tenants.database("ada"), tenants.database("bob")
    seqs: list[int] = []
    with bob.write() as tx:
        add(tx, chosen)
    for batch in (1, 40, 200, 3, 70):
        with ada.write() as tx:
            seqs += [add(tx, chosen) for _ in range(batch)]
        with ada.write() as tx:
            for seq in [seqs.pop(chosen.randrange(len(seqs))) for _ in range(len(seqs) // 3)]:
                tx.texts(NOTES.words).delete(seq)
        assert sum(counts_of(postgres_url, "ada").values()) > 0
    with ada.read() as tx:
        terms = [f'"{word}"' for word in (*WORDS, "missing")]
        found = tx.texts(NOTES.words).counts(terms, 1000)
        assert list(found.values()) == [looked_up(tx, word) for word in (*WORDS, "missing")]
        assert tx.number("SELECT count(*) FROM word_counts") > 0
    assert 0 < sum(counts_of(postgres_url, "bob").values()) <= 6


def test_after_a_large_write_texts_are_counted_until_the_next_one(
    tenants: PostgresTenants, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(word_counts, "MAX_UNMERGED", 5)
    chosen, ada = random.Random(8), tenants.database("ada")
    for unmerged in (63, 0):
        with ada.write() as tx:
            for _ in range(unmerged or 1):
                add(tx, chosen)
        with ada.read() as tx:
            assert tx.number("SELECT changes FROM word_totals") == unmerged
            texts = tx.texts(NOTES.words)
            assert texts.counts(['"word0"'], 1000)['"word0"'] == looked_up(tx, "word0") > 10
            assert bool(texts._stored) == (unmerged == 0)


def test_an_optimized_index_keeps_no_word_of_a_deleted_text(tenants: PostgresTenants, postgres_url: str) -> None:
    chosen, ada = random.Random(11), tenants.database("ada")
    with ada.write() as tx:
        add(tx, chosen)
        secret = add(tx, chosen, "secret")
    with ada.write() as tx:
        tx.texts(NOTES.words).delete(secret)
    before = counts_of(postgres_url, "ada")
    with ada.write() as tx:
        tx.texts(NOTES.words).optimize()
    assert counts_of(postgres_url, "ada") == before
    with ada.read() as tx:
        assert tx.number("SELECT count(*) FROM word_changes") == tx.number("SELECT changes FROM word_totals") == 0
        assert tx.number("SELECT count(*) FROM word_counts WHERE word = 'secret'") == 0


def test_a_write_that_is_undone_changes_no_count(tenants: PostgresTenants, postgres_url: str) -> None:
    chosen, ada = random.Random(9), tenants.database("ada")
    with ada.write() as tx:
        add(tx, chosen)
    before = counts_of(postgres_url, "ada")
    with pytest.raises(ZeroDivisionError), ada.write() as tx:
        for _ in range(100):
            add(tx, chosen)
        raise ZeroDivisionError
    assert counts_of(postgres_url, "ada") == before


def test_words_of_a_deleted_tenant_are_not_kept(
    pool: PostgresPool, tenants: PostgresTenants, postgres_url: str
) -> None:
    chosen = random.Random(10)
    for tenant, count in (("ada", 100), ("bob", 3)):
        with tenants.database(tenant).write() as tx:
            for _ in range(count):
                add(tx, chosen, "secret")
    with tenants.database("bob").write() as tx:
        for seq in (1, 2, 3):
            tx.all("DELETE FROM notes WHERE seq = :seq", {"seq": seq})
    with write_all_tenants(pool) as everything:
        assert isinstance(everything, AllTenants)
        everything.delete("ada")
    with psycopg.connect(postgres_url) as connection:
        for table in ("word_counts", "word_changes"):
            assert connection.execute(f"SELECT count(*) FROM memory.{table}".encode()).fetchone() == (0,)


def test_texts_of_a_former_version_are_counted(
    postgres_server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for file in sorted(BASE.folder.glob("[0-9]*.sql"))[:5]:
        shutil.copy(file, tmp_path)
    with new_database(postgres_server) as url:
        with psycopg.connect(url, autocommit=True) as connection, monkeypatch.context() as former:
            former.setattr(migrations, "BASE", TableSet("base", tmp_path))
            migrations.run(connection, [TABLES])
        with psycopg.connect(url, autocommit=True) as connection:
            for tenant, vector in (("ada", "'blue':1A 'kite':2A"), ("ada", "'blue':1A"), ("bob", "'red':1A")):
                with connection.transaction():
                    connection.execute("SELECT set_config('memory.tenant', %s, true)", (tenant,))
                    row = (_note(connection), 2, vector)
                    connection.execute("INSERT INTO memory_notes.notes_words_rows VALUES (DEFAULT, %s, %s, %s)", row)
        with closing(PostgresPool(url)) as pool:
            pool.open([TABLES])
            with PostgresTenants(pool, TABLES, durable=True).database("ada").read() as tx:
                terms = ['"blue"', '"kite"', '"red"']
                assert tx.texts(NOTES.words).counts(terms, 10) == {'"blue"': 2, '"kite"': 1, '"red"': 0}
        assert counts_of(url, "ada") == {"blue": 2, "kite": 1}
        assert counts_of(url, "bob") == {"red": 1}


def _note(connection: psycopg.Connection[tuple[int]]) -> int:
    row = connection.execute(
        """
        INSERT INTO memory_notes.notes (id, user_id, title, has_own_title, title_key, content, content_key, source,
            created_at, updated_at)
        VALUES (gen_random_uuid(), '', '', 0, '', '', '', 'mcp', '', '') RETURNING seq
        """
    ).fetchone()
    assert row
    return row[0]
