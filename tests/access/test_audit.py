import pytest

from memory_mcp.access import Audit, AuditEvent, Users
from memory_mcp.access import audit as audit_module
from memory_mcp.caller import LOCAL_USER
from memory_mcp.clock import stamp
from memory_mcp.engines.sqlite import Database
from tests.conftest import Clock


def actions(audit: Audit, user: str = LOCAL_USER) -> list[str]:
    return [entry.event.action for entry in audit.of(user, None, 1000)]


def test_an_entry_says_what_was_done_by_whom_and_when(db: Database, clock: Clock) -> None:
    audit = Audit(db)
    deed = AuditEvent("prune_memory", "k" * 12, "Claude", "192.0.2.7", {"arguments": {"key": "naïve ☂"}})
    audit.record(LOCAL_USER, deed)

    (entry,) = audit.of(LOCAL_USER, None, 10)
    assert entry.event == deed
    assert entry.at == stamp(clock.now)


def test_the_newest_come_first_and_pages_join_without_gap_or_overlap(db: Database) -> None:
    audit = Audit(db)
    for number in range(25):
        audit.record(LOCAL_USER, AuditEvent(f"deed {number}"))
    seen: list[str] = []
    before = None
    while page := audit.of(LOCAL_USER, before, 10):
        seen += [entry.event.action for entry in page]
        before = page[-1].id
        audit.record(LOCAL_USER, AuditEvent("meanwhile"))  # what comes in between moves no page
    assert seen == [f"deed {number}" for number in reversed(range(25))]


def test_the_oldest_go_beyond_the_bound_of_this_user_alone(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_module, "MAX_ENTRIES_PER_USER", 5)
    audit = Audit(db)
    ann = Users(db, audit).add("ann").id
    audit.record(ann, AuditEvent("hers"))
    for number in range(8):
        audit.record(LOCAL_USER, AuditEvent(f"deed {number}"))
    assert actions(audit) == [f"deed {number}" for number in (7, 6, 5, 4, 3)]
    assert actions(audit, ann) == ["hers"]


def test_each_reads_their_own(db: Database) -> None:
    audit = Audit(db)
    users = Users(db, audit)
    ann, bob = users.add("ann").id, users.add("bob").id
    audit.record(ann, AuditEvent("hers"))
    audit.record(bob, AuditEvent("his"))
    assert (actions(audit, ann), actions(audit, bob)) == (["hers"], ["his"])
    assert actions(audit) == ["user_added", "user_added"]
    assert actions(audit, "nobody") == []


def test_a_removed_users_lines_go_and_a_late_one_harms_nobody(db: Database) -> None:
    """A call that is under way when its user is removed still ends well."""
    audit = Audit(db)
    users = Users(db, audit)
    ann = users.add("ann").id
    audit.record(ann, AuditEvent("hers"))
    users.remove("ann")
    audit.record(ann, AuditEvent("too late"))
    assert actions(audit, ann) == []
    assert actions(audit) == ["user_removed", "user_added"]
