"""What one row and one call cost in PostgreSQL, and whether calls of one tenant cost more among many others, for the
plan in docs/scale.md: `make bench-scale`."""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import psycopg
from tests.postgres import empty, running_server

from benchmarks import seeded
from benchmarks.figures import introduction, print_table
from benchmarks.postgres import analyze, processor_of
from benchmarks.texts import Texts
from memory_mcp.app import App, open_app
from memory_mcp.caller import ALL_SCOPES, LOCAL_USER, Caller
from memory_mcp.families.notes.model import Author, NewNote, NoteQuery
from memory_mcp.settings import Settings

CALLER = Caller(LOCAL_USER, ALL_SCOPES, frozenset({"notes"}))
WRITER = Caller("writer", ALL_SCOPES, frozenset({"notes"}))
NOTES_EACH = 1_000  # of a tenant
COPIED_TABLES = """
    SELECT format('%I.%I', c.table_schema, c.table_name), string_agg(quote_ident(c.column_name), ', ')
    FROM information_schema.columns AS c JOIN information_schema.tables AS t USING (table_schema, table_name)
    WHERE (c.table_schema = 'memory_notes' OR (c.table_schema, c.table_name) IN (
            ('memory', 'last_numbers'), ('memory', 'word_totals'), ('memory', 'word_counts'), ('memory', 'word_changes')
        ))
        AND t.table_type = 'BASE TABLE' AND c.is_generated = 'NEVER' AND c.column_name <> 'tenant'
        AND c.table_name NOT IN ('note_vectors_parts', 'note_vectors_contexts', 'embed_queue')
    GROUP BY 1
"""
SIZE = """
    SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint, coalesce(sum(pg_indexes_size(c.oid)), 0)::bigint
    FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relkind = 'r'
"""

BIGGEST_TABLES = """
    SELECT relname, pg_total_relation_size(c.oid) / 1000.0 / %(notes)s, pg_indexes_size(c.oid) / 1000.0 / %(notes)s
    FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE n.nspname = 'memory_notes' AND c.relkind = 'r' ORDER BY pg_total_relation_size(c.oid) DESC LIMIT 6
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--notes", type=int, default=2_000)
    parser.add_argument("--users", type=int, default=2_000)
    parser.add_argument("--calls", type=int, default=100)
    parser.add_argument("--tenants", default="1,10,100", help="with 1,000 notes each, one after another")
    chosen = parser.parse_args()
    print(introduction())
    with running_server(is_durable=True) as url, tempfile.TemporaryDirectory() as folder:
        empty(url)
        settings = Settings(data_dir=Path(folder), families=("notes",), database_url=url)
        with open_app(settings, serving=False) as app:
            seeded.fill(app.notes._files.of(LOCAL_USER).db, chosen.notes)
            _add_users(url, chosen.users)
            _print_sizes(url, chosen.notes, chosen.users)
            _print_calls(app, url, chosen.calls)
            _print_memory(url)
        empty(url)
        with open_app(settings, serving=False) as app:
            _print_growth(app, url, [int(count) for count in chosen.tenants.split(",")], chosen.calls)


def _print_growth(app: App, url: str, counts: list[int], calls: int) -> None:
    """Calls of one tenant with 1,000 notes, while others have as many each."""
    seeded.fill(app.notes._files.of(LOCAL_USER).db, NOTES_EACH)
    questions = list(Texts(seeded.SEED + 1).questions(calls))
    notes = Texts(seeded.SEED + 3).notes(2 * calls * len(counts))
    rows: list[tuple[str, ...]] = [
        ("tenants", "notes", "search, hybrid", "search, lexical", "create: processor ms of server and database")
    ]
    existing = 1
    with processor_of(url) as processor:
        for count in counts:
            _add_tenants(url, existing, count)
            existing = count
            analyze(url)
            costs = []
            for work in (
                lambda n: app.notes.reader.hits(CALLER, NoteQuery(questions[n])),
                lambda n: app.notes.reader.hits(CALLER, NoteQuery(questions[n], mode="lexical")),
                lambda _: app.notes.writer.create(WRITER, Author(), NewNote(next(notes).content)),
            ):
                _measure(work, min(calls, 10))  # opens connections, plans statements and copies vectors
                started = processor()
                _measure(work, calls)
                costs.append(f"{(processor() - started) / calls * 1000:.2f}")
            rows.append((str(count), str(count * NOTES_EACH), *costs))
    print_table("Growth", rows)


def _add_tenants(url: str, existing: int, wanted: int) -> None:
    """Add tenants, each with a copy of the local user's notes, until there are as many as wanted."""
    with psycopg.connect(url, autocommit=True, options="-c session_replication_role=replica") as connection:
        for table, columns in connection.execute(COPIED_TABLES).fetchall():
            connection.execute(
                f"""
                INSERT INTO {table} (tenant, {columns}) OVERRIDING SYSTEM VALUE
                SELECT 'tenant' || n, {columns} FROM {table}, generate_series(%s::int, %s::int) AS n
                WHERE tenant = 'local'
                """.encode(),
                (existing, wanted - 1),
            )


def _add_users(url: str, count: int) -> None:
    """Users with a key, an hour of use and ten audit records each, written as access/ writes them."""
    with psycopg.connect(url, autocommit=True, options="-c search_path=memory_server") as connection:
        for table, columns, times in (
            (
                "users (tenant, id, name, created_at)",
                "'u' || lpad(n::text, 16, '0'), 'user' || n, '2026-11-17T00:00:00Z'",
                1,
            ),
            (
                "keys (tenant, id, user_id, name, key_prefix, secret_hash, scopes, families, made_by, created_at)",
                "lpad(n::text, 12, '0'), 'u' || lpad(n::text, 16, '0'), 'laptop', 'mmcp_12345678', repeat('x', 60), "
                "'[\"delete\", \"read\", \"write\"]', '[]', 'person', '2026-11-17T00:00:00Z'",
                1,
            ),
            (
                "audit (tenant, user_id, id, at, action, client, details)",
                "'u' || lpad(n::text, 16, '0'), t, '2026-11-17T00:00:00Z', 'key_used', 'Claude', '{\"name\": \"k\"}'",
                10,
            ),
        ):
            numbers = "generate_series(1, %s) AS n, generate_series(1, %s) AS t"
            connection.execute(
                f"INSERT INTO {table} SELECT 'server', {columns} FROM {numbers}".encode(), (count, times)
            )


def _print_sizes(url: str, notes: int, users: int) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM (FULL, ANALYZE)")
        rows = [("rows", "kB each", "of it indexes")]
        for label, schema, count in (
            ("note", "memory_notes", notes),
            ("user, key, ten audit records", "memory_server", users),
        ):
            whole, indexes = connection.execute(SIZE, (schema,)).fetchone() or (0, 0)
            rows.append((label, f"{whole / count / 1000:.2f}", f"{indexes / count / 1000:.2f}"))
        tables = connection.execute(BIGGEST_TABLES, {"notes": notes}).fetchall()
        print_table(
            "Bytes", [*rows, *((f"of a note: {name}", f"{kb:.2f}", f"{of_it:.2f}") for name, kb, of_it in tables)]
        )


def _print_memory(url: str) -> None:
    """Private memory of each process of the database that has answered calls: cache that all share is not in it."""
    with psycopg.connect(url, autocommit=True) as connection:
        pids = connection.execute(
            "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        ).fetchall()
    each = sorted(_private_bytes(pid) for (pid,) in pids)
    print_table(
        "Memory", [("a connection in the database, MB, least and most", f"{each[0] / 1e6:.1f} {each[-1] / 1e6:.1f}")]
    )


def _private_bytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Private_"))


def _print_calls(app: App, url: str, count: int) -> None:
    questions = list(Texts(seeded.SEED + 1).questions(count))
    notes = Texts(seeded.SEED + 2).notes(2 * count)
    key = app.access.keys.create(name="bench").raw
    rows = [("calls one after another", "ms each", "processor ms of the server", "of the database")]
    for label, work in (
        ("memory_search, hybrid", lambda n: app.notes.reader.hits(CALLER, NoteQuery(questions[n]))),
        ("memory_search, lexical", lambda n: app.notes.reader.hits(CALLER, NoteQuery(questions[n], mode="lexical"))),
        ("memory_create", lambda _: app.notes.writer.create(CALLER, Author(), NewNote(next(notes).content))),
        ("a rate limit counted", lambda _: app.access.limits.take("user", 1_000_000)),
        ("a key checked, not from memory", partial(_check_key_again, app, key)),
    ):
        _measure(work, min(count, 10))  # opens connections, plans statements and copies vectors
        with processor_of(url) as processor:
            started = processor()
            elapsed, of_server = _measure(work, count)
            whole = (processor() - started) / count * 1000
        rows.append((label, f"{elapsed:.2f}", f"{of_server:.2f}", f"{whole - of_server:.2f}"))
    print_table("Time", rows)


def _check_key_again(app: App, key: str, _: int) -> None:
    app.access.keys.forget(LOCAL_USER)
    app.access.keys.check(key)


def _measure(work: Callable[[int], object], count: int) -> tuple[float, float]:
    """Elapsed and processor time of one call, in ms."""
    start, processor = time.perf_counter(), time.process_time()
    for number in range(count):
        work(number)
    elapsed, used = time.perf_counter() - start, time.process_time() - processor
    return elapsed / count * 1000, used / count * 1000


if __name__ == "__main__":
    main()
