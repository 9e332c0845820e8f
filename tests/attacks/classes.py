"""The classes of attacks, and the tests that try each: files, or a file and words of its tests' names (-k)."""

from dataclasses import dataclass


@dataclass(frozen=True)
class AttackClass:
    name: str
    files: tuple[str, ...]
    words: str = ""  # as pytest's -k takes them


CLASSES = (
    AttackClass("paths and symlink races", ("tests/engines/files/test_rooted_folder.py",)),
    AttackClass(
        "SQL and FTS injection",
        ("tests/services/search/test_fts_query.py", "tests/fuzz/test_corpus.py"),
        "fts or query or sql",
    ),
    AttackClass("portal escapes, by hand", ("tests/engines/chdb/test_sql_policy.py",)),
    AttackClass("portal escapes, generated from the engine's lists", ("tests/engines/chdb/test_generated_escapes.py",)),
    AttackClass(
        "SSRF in imports",
        ("tests/families/portals/test_files.py",),
        "address or fetched or fetches or private_address or web",
    ),
    AttackClass(
        "hostile archives, parquet, db and zip files; bombs",
        (
            "tests/families/portals/test_hostile_files.py",
            "tests/families/portals/test_zip_files.py",
            "tests/engines/files/test_compressed.py",
            "tests/importers/test_archives.py",
        ),
    ),
    AttackClass(
        "choices and memory of portal imports",
        ("tests/families/portals/test_import_choices.py", "tests/families/portals/test_query_memory.py"),
    ),
    AttackClass("malformed messages, deep JSON, lone surrogates", ("tests/server/test_fuzz.py",)),
    AttackClass("hostile texts in every field of every tool", ("tests/attacks/test_texts.py",)),
    AttackClass(
        "headers, cookies, CSRF, session fixation", ("tests/attacks/test_browsers.py", "tests/server/test_http.py")
    ),
    AttackClass(
        "key guessing",
        ("tests/attacks/test_keys.py", "tests/services/access/test_keys.py", "tests/services/access/test_sign_ins.py"),
    ),
    AttackClass("other tenants, by every identifier", ("tests/test_tenants.py", "tests/test_confined_keys.py")),
    AttackClass("slow-loris and floods of connections", ("tests/server/test_connections.py",)),
    AttackClass(
        "floods of calls and sessions, hoarded streams",
        ("tests/server/test_fairness.py", "tests/server/test_answer_order.py", "tests/services/sessions/test_caps.py"),
    ),
    AttackClass("stored script in what pages show", ("tests/web/test_stored_script.py", "tests/web/test_markdown.py")),
    AttackClass(
        "hostile hub and hostile node",
        ("tests/services/sync/test_hostile_hub.py", "tests/services/sync/test_hub.py"),
    ),
)
