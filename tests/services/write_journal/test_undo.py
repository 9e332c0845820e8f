"""The journal of writes on each engine, through the operations of the families that have tables in both."""

import tracemalloc
from dataclasses import replace
from datetime import timedelta

import pytest

from memory_mcp.app import App
from memory_mcp.caller import ALL_SCOPES, Caller, Scope
from memory_mcp.cli.common import new_session
from memory_mcp.errors import Forbidden
from memory_mcp.families import write_review
from memory_mcp.families.graph.answers import Skip
from memory_mcp.families.graph.model import Facts, NamedRelation, NewEntity
from memory_mcp.families.notes.model import Author, NewNote, Revision
from memory_mcp.families.vault.model import MemoryQuery, NewMemory, PruneFilter
from memory_mcp.families.write_review import ReviewQuery, UndoReport
from memory_mcp.services.sessions import Session
from memory_mcp.services.write_journal import WriteQuery, Writer, storage
from memory_mcp.services.write_journal.model import COPY_LIFETIME
from memory_mcp.services.write_journal.storage import RECORDS_PER_TRIM
from memory_mcp.services.write_journal.undo import NO_COPY
from tests.conftest import Clock

MALLORY = ReviewQuery(WriteQuery(client="mallory"))


def caller(client: str) -> Caller:
    return Caller("local", ALL_SCOPES, frozenset({"vault", "notes", "graph"}), client=client)


@pytest.fixture
def session() -> Session:
    return new_session(caller("alice"))


def commit(app: App, session: Session, client: str, content: str, key: str = "bank") -> None:
    vector = (1.0, 0.0, 0.0)
    app.vault.commit(caller(client), session, NewMemory("vault", key, content, ("money",), vector))


def content_of(app: App, key: str = "bank") -> list[str]:
    found = app.vault.search(caller("alice"), new_session(caller("alice")), MemoryQuery("account", "vault"))
    return [hit.content for hit in found.results if hit.key == key]


def test_copies_of_a_text_that_is_overwritten_again_and_again_are_limited(
    app: App, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "MAX_COPY_BYTES", 100_000)
    monkeypatch.setattr(storage, "RECORDS_PER_SIZE_CHECK", 4)
    commit(app, session, "alice", "account 0")
    for number in range(1, 40):
        commit(app, session, "mallory", f"account {number} {'x' * 10_000}")
    last = app.write_review.writes(caller("alice"), MALLORY, 1).writes[0]
    report = app.write_review.undo(caller("alice"), ReviewQuery(ids=frozenset({last.id})))
    assert report.restored == 1, "the newest copies are kept"
    assert content_of(app)[0].startswith("account 38 ")
    report = app.write_review.undo(caller("alice"), MALLORY)
    assert (report.restored, report.left) == (0, 1), "the oldest copies are gone"
    assert report.items[0].undo.why == NO_COPY


def test_the_vault_gets_back_text_tags_times_and_vector(app: App, session: Session, clock: Clock) -> None:
    commit(app, session, "alice", "account 1")
    was = list(app.vault.everything(caller("alice")))
    clock.now += timedelta(hours=1)
    app.vault.commit(caller("mallory"), session, NewMemory("vault", "bank", "account 2"))
    app.vault.prune(caller("mallory"), session, PruneFilter("vault", "bank"))
    report = app.write_review.undo(caller("alice"), MALLORY)
    assert (report.restored, report.left, report.incomplete) == (1, 0, {})
    assert list(app.vault.everything(caller("alice"))) == was
    assert content_of(app) == ["account 1"]
    app.write_review.undo(caller("alice"), ReviewQuery(WriteQuery(undo_id=report.undo_id)))
    assert content_of(app) == []


def test_only_the_writes_after_another_writers_are_undone(app: App, session: Session) -> None:
    for client, content in (("mallory", "account 1"), ("alice", "account 2"), ("mallory", "account 3")):
        commit(app, session, client, content)
    report = app.write_review.undo(caller("alice"), MALLORY)
    assert [(one.undo.outcome, one.undo.why) for one in report.items] == [
        ("restore", None),
        ("left", "it was changed later by alice"),
    ]
    assert content_of(app) == ["account 2"]


def test_what_was_undone_does_not_come_back_when_everything_since_is_undone(app: App, session: Session) -> None:
    """Also when that undo was taken back and made again meanwhile."""
    commit(app, session, "alice", "account 1")
    commit(app, session, "mallory", "account 2")
    first = app.write_review.undo(caller("alice"), MALLORY)
    assert undo_newest(app, 2) == 0
    assert content_of(app) == ["account 1"]
    app.write_review.undo(caller("alice"), ReviewQuery(WriteQuery(undo_id=first.undo_id)))
    assert undo_newest(app, 2) == 0
    assert content_of(app) == ["account 2"]
    app.write_review.undo(caller("alice"), MALLORY)
    assert undo_newest(app, 4) == 0
    assert content_of(app) == ["account 1"]
    assert undo_newest(app, 5) == 1
    assert content_of(app) == []


def undo_newest(app: App, count: int) -> int:
    page = app.write_review.writes(caller("alice"), ReviewQuery(), count).writes
    report = app.write_review.undo(caller("alice"), ReviewQuery(ids=frozenset(one.id for one in page)))
    return len(report.items)


def test_a_graph_gets_back_its_rows_and_finds_them(app: App, session: Session) -> None:
    alice, mallory = caller("alice"), caller("mallory")
    app.graph.create_project(alice, session, "p", "")
    app.graph.create_entities(
        alice, session, "p", [NewEntity("Berta", "person", ("saves",)), NewEntity("Bank", "firm")]
    )
    app.graph.create_relations(alice, session, "p", [NamedRelation("Berta", "Bank", "trusts")])
    app.graph.delete_entities(mallory, session, "p", ["Berta"])
    app.graph.add_observations(mallory, session, "p", [Facts("Bank", ("is bankrupt",))])
    report = app.write_review.undo(alice, MALLORY)
    assert (report.deleted, report.restored, report.left) == (1, 3, 0)
    assert [one.name for one in app.graph.search(alice, session, "p", "saves", 5).entities] == ["Berta"]
    assert app.graph.search(alice, session, "p", "bankrupt", 5).entities == []
    assert len(app.graph.open_nodes(alice, session, "p", ["Berta"], Skip()).relations) == 1


def test_a_name_that_was_taken_since_is_left_alone(app: App, session: Session) -> None:
    alice, mallory = caller("alice"), caller("mallory")
    app.graph.create_project(alice, session, "p", "")
    app.graph.create_entities(alice, session, "p", [NewEntity("Berta", "person", ("saves",))])
    app.graph.delete_entities(mallory, session, "p", ["Berta"])
    app.graph.create_entities(alice, session, "p", [NewEntity("Berta", "aunt")])
    report = app.write_review.undo(alice, MALLORY)
    assert {one.undo.why for one in report.items} == {"it was written again since", "its entity is deleted"}
    assert [one.entity_type for one in app.graph.open_nodes(alice, session, "p", ["Berta"], Skip()).entities] == [
        "aunt"
    ]


def test_a_note_gets_its_former_version(app: App, session: Session) -> None:
    alice, mallory = caller("alice"), caller("mallory")
    author = Author("mcp", "x", session.id)
    note = app.notes.writer.create(alice, author, NewNote("Pay 1 to #berta", tags=("money",), metadata={"a": 1}))
    app.notes.writer.update(mallory, author, note.id, Revision(content="Pay 2 to #mallory", tags=(), namespace="away"))
    app.notes.writer.delete(mallory, note.id, soft=True)
    assert app.write_review.undo(alice, MALLORY).restored == 1
    now = app.notes.reader.read(alice, note.id)
    assert replace(now, version=note.version, updated_at=note.updated_at, similar=note.similar, origin=None) == note
    assert now.version == 4


def test_an_undo_in_many_portions_equals_its_preview(
    app: App, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_review, "MAX_ITEMS_PER_TRANSACTION", 2)
    alice, mallory = caller("alice"), caller("mallory")
    app.graph.create_project(alice, session, "p", "")
    app.graph.create_entities(alice, session, "p", [NewEntity("Bank", "firm", ("is safe", "is old"))])
    app.graph.create_entities(
        mallory, session, "p", [NewEntity("Berta", "person", tuple(f"fact {n}" for n in range(5)))]
    )
    app.graph.create_relations(mallory, session, "p", [NamedRelation("Berta", "Bank", "robs")])
    app.graph.delete_entities(mallory, session, "p", ["Bank"])
    for number in range(3):
        for key in ("a", "b", "c"):
            commit(app, session, "mallory", f"account {number}", key)
    undos: list[UndoReport] = []
    for _ in range(3):
        wanted = ReviewQuery(WriteQuery(undo_id=undos[-1].undo_id)) if undos else MALLORY
        planned, done = app.write_review.preview(alice, wanted), app.write_review.undo(alice, wanted)
        assert (planned.deleted, planned.restored, planned.left) == (done.deleted, done.restored, done.left)
        undos.append(done)
    assert [(one.deleted, one.restored, one.left) for one in undos] == [(9, 3, 0), (3, 9, 0), (9, 3, 0)]
    assert content_of(app, "a") == []


def test_an_undo_does_not_undo_itself(app: App, session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_review, "MAX_ITEMS_PER_TRANSACTION", 1)
    for number in range(3):
        commit(app, session, "mallory", "account 1", f"k{number}")
    report = app.write_review.undo(caller("mallory"), MALLORY)  # its own writes match, too
    assert (report.deleted, report.restored, report.left) == (3, 0, 0)
    assert content_of(app, "k0") == []


def test_former_states_are_not_read_all_at_once(app: App, session: Session) -> None:
    size = 500_000
    for letter in ("a", "b"):
        for number in range(20):
            commit(app, session, "mallory" if letter == "b" else "alice", "account " + letter * size, f"k{number}")
    tracemalloc.start()
    assert app.write_review.preview(caller("alice"), MALLORY).restored == 20
    previewing = tracemalloc.get_traced_memory()[1]
    tracemalloc.reset_peak()
    assert app.write_review.undo(caller("alice"), MALLORY).restored == 20
    undoing = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert max(previewing, undoing) < 10 * size


def test_a_confined_caller_reviews_and_undoes_only_the_writes_of_its_namespace(app: App, session: Session) -> None:
    mallory, author = caller("mallory"), Author("mcp", "x", session.id)
    inside, also_inside, outside = (
        app.notes.writer.create(mallory, author, NewNote(text, namespace=namespace))
        for text, namespace in (("Pay 1", "work"), ("Pay 2", "work"), ("Pay 3", "home"))
    )
    app.notes.writer.link(mallory, inside.id, also_inside.id, bidirectional=False)
    app.notes.writer.link(mallory, inside.id, outside.id, bidirectional=False)
    commit(app, session, "mallory", "account 1")
    confined = replace(caller("work-key"), namespace="work", is_confined=True)
    seen = {one.title for one in app.write_review.writes(confined, ReviewQuery(), 10).writes}
    assert seen == {"Pay 1", "Pay 2", "Pay 1 → Pay 2 (link)"}
    assert [one.group.count for one in app.write_review.groups(confined, ReviewQuery()).groups] == [3]
    ids = {one.id for one in app.write_review.writes(caller("alice"), ReviewQuery(), 10).writes}
    for query in (MALLORY, ReviewQuery(ids=frozenset(ids))):
        assert app.write_review.preview(confined, query).deleted == 3
    assert app.write_review.undo(confined, MALLORY).deleted == 3
    left = [one for one in app.write_review.writes(caller("alice"), MALLORY, 10).writes if not one.is_undone]
    assert {one.title for one in left} == {"Pay 3", "bank", "Pay 1 → Pay 3 (link)"}


def test_a_confined_caller_restores_no_version_of_another_namespace(app: App, session: Session) -> None:
    author = Author("mcp", "x", session.id)
    note = app.notes.writer.create(caller("alice"), author, NewNote("A secret", namespace="home"))
    app.notes.writer.update(caller("mallory"), author, note.id, Revision(content="Pay 2", namespace="work"))
    confined = replace(caller("work-key"), namespace="work", is_confined=True)
    report = app.write_review.undo(confined, MALLORY)
    assert [(one.undo.outcome, one.undo.why) for one in report.items] == [("left", NO_COPY)]
    assert app.notes.reader.read(caller("alice"), note.id).content == "Pay 2"


def test_copies_expire_and_records_stay(app: App, session: Session, clock: Clock) -> None:
    commit(app, session, "alice", "account 1")
    commit(app, session, "mallory", "account 2")
    clock.now += COPY_LIFETIME + timedelta(days=1)
    for number in range(RECORDS_PER_TRIM):
        commit(app, session, "alice", "something", key=f"k{number}")
    report = app.write_review.preview(caller("alice"), MALLORY)
    assert [one.undo.why for one in report.items] == ["no copy of its former state is kept"]
    assert len(app.write_review.writes(caller("alice"), MALLORY, 10).writes) == 1


def test_a_review_needs_the_scope_to_read(app: App, session: Session) -> None:
    unable = replace(caller("alice"), scopes=ALL_SCOPES - {Scope.READ})
    for review in (app.write_review.preview, app.write_review.groups):
        with pytest.raises(Forbidden):
            review(unable, MALLORY)
    with pytest.raises(Forbidden):
        app.write_review.writes(unable, MALLORY, 10)


def test_an_undo_needs_the_scopes_of_what_it_does(app: App, session: Session) -> None:
    commit(app, session, "mallory", "account 1")
    for scope in (Scope.WRITE, Scope.DELETE, Scope.LINK):
        with pytest.raises(Forbidden):
            app.write_review.undo(replace(caller("alice"), scopes=ALL_SCOPES - {scope}), MALLORY)
    assert content_of(app) == ["account 1"]


def test_a_writer_is_named_in_a_few_words() -> None:
    assert [
        str(one) for one in (Writer("mcp", "cursor", "1", "laptop"), Writer("cli", ""), Writer("import", "mem0"))
    ] == [
        "cursor with key laptop",
        "command line",
        "import of mem0",
    ]
    assert [str(one) for one in (Writer("mcp", ""), Writer("ui", "web app"), Writer("hook", "claude-code"))] == [
        "unnamed client",
        "web app",
        "hook of claude-code",
    ]
