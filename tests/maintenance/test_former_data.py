"""Data directories that former versions wrote are opened by this one, with every memory. See `make chaos`, too."""

from collections import Counter, defaultdict
from pathlib import Path

import apsw
import pytest

from memory_mcp.families.notes.model import NoteQuery
from memory_mcp.families.portals.table_undo import UNMARKED
from memory_mcp.families.registry import STORAGE_FAMILIES
from memory_mcp.families.write_review import ReviewQuery
from memory_mcp.services.access import server_db
from memory_mcp.services.write_journal import WriteQuery
from tests.exhaustive import sample
from tests.maintenance import former_data
from tests.maintenance.sample_data import LOCAL, maintenance_of, opened

NAMES = former_data.names()
TRIED = sample(NAMES, 7)


def texts(data_dir: Path) -> Counter[str]:
    """How often each text is stored in each family."""
    found: Counter[str] = Counter()
    for pattern, query in former_data.KINDS.items():
        for path in data_dir.glob(pattern):
            connection = apsw.Connection(str(path))
            found.update(f"{pattern}: {text}" for (text,) in connection.execute(query))
            connection.close()
    for path in (data_dir / "stores").rglob("*.md"):
        found[f"stores: {path.read_text(encoding='utf-8').splitlines()[-1]}"] += 1
    return found


@pytest.mark.parametrize("name", TRIED)
def test_data_of_a_former_version_is_complete_and_searchable(tmp_path: Path, name: str) -> None:
    data_dir = former_data.unpack(name, tmp_path / "data")
    before = texts(data_dir)
    assert before["memory.db: kept since spring"] == 1
    with opened(data_dir) as app:
        hits = app.notes.reader.search(LOCAL, NoteQuery("spring")).memories
        assert bool(hits) == bool(before["notes.db: kept since spring"])
        if before["projects/*.db: kept since spring"]:
            assert list(app.graph.everything(LOCAL, "seasons"))
    assert texts(data_dir) == before
    with maintenance_of(data_dir) as maintenance:
        findings = maintenance.doctor.check(repair=False).findings
    assert [one for one in findings if one.state == "problem" and one.check != "permissions"] == []


def test_a_data_directory_of_every_schema_version_is_kept(tmp_path: Path) -> None:
    """If this fails, a migration was added: see tests/maintenance/former_data.py."""
    kept: dict[str, set[int]] = defaultdict(set)
    for name in NAMES:
        data_dir = former_data.unpack(name, tmp_path / name)
        for path in data_dir.rglob("*.db"):
            connection = apsw.Connection(str(path))
            kind = "projects/*.db" if path.parent.name == "projects" else path.name
            kept[kind].add(int(connection.pragma("user_version")))
            connection.close()
    kinds = {
        "projects/*.db" if kind.folders else kind.file: kind.schema
        for family in STORAGE_FAMILIES
        for kind in family.databases
    }
    newest = {"server.db": server_db.SCHEMA, **kinds}
    missing = {
        name: sorted(set(range(1, schema.version)) - kept[name]) for name, schema in newest.items() if name in kept
    }
    assert not any(missing.values()), missing


def test_rows_of_a_version_that_did_not_number_them_are_never_undone(tmp_path: Path) -> None:
    portal, names = former_data.PORTAL, sorted(former_data.TEXTS)
    portals = frozenset({"portals"})
    with opened(former_data.unpack("44-26f2d88", tmp_path / "data")) as app:
        report = app.write_review.undo(LOCAL, ReviewQuery(WriteQuery(client="former"), portals))
        assert (report.rows_deleted, [one.undo.why for one in report.items]) == (0, [UNMARKED])
        app.portals.write(LOCAL, portal, "seasons", [{"name": names[0]}])
        report = app.write_review.undo(LOCAL, ReviewQuery(families=portals))
        assert (report.rows_deleted, [one.undo.why for one in report.items]) == (1, [None, UNMARKED])
        found = app.portals.query(LOCAL, portal, "SELECT name FROM seasons ORDER BY name", {}, None, "arrays").rows
        assert found == [[name] for name in names]
