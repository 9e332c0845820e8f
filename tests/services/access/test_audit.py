import pytest

from memory_mcp.caller import LOCAL_USER
from memory_mcp.clock import stamp
from memory_mcp.engines.transactions import SharedDatabase
from memory_mcp.services.access import Audit, AuditEvent, Users
from memory_mcp.services.access import audit as audit_module
from tests.conftest import Clock


def actions(audit: Audit, user: str = LOCAL_USER) -> list[str]:
    return [entry.event.action for entry in audit.of(user, None, 1000)]


def test_a_record_has_action_actor_and_time(db: SharedDatabase, clock: Clock) -> None:
    audit = Audit(db)
    event = AuditEvent("prune_memory", "k" * 12, "Claude", "192.0.2.7", {"arguments": {"key": "naïve ☂"}})
    audit.record(LOCAL_USER, event)

    (entry,) = audit.of(LOCAL_USER, None, 10)
    assert entry.event == event
    assert entry.at == stamp(clock.now)


def test_the_newest_come_first_and_pages_join_without_gap_or_overlap(db: SharedDatabase) -> None:
    audit = Audit(db)
    for number in range(25):
        audit.record(LOCAL_USER, AuditEvent(f"action {number}"))
    seen: list[str] = []
    before = None
    while page := audit.of(LOCAL_USER, before, 10):
        seen += [entry.event.action for entry in page]
        before = page[-1].id
        audit.record(LOCAL_USER, AuditEvent("meanwhile"))  # what comes in between moves no page
    assert seen == [f"action {number}" for number in reversed(range(25))]


def test_beyond_the_limit_a_users_oldest_records_are_deleted(
    db: SharedDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_module, "MAX_RECORDS_PER_USER", 5)
    audit = Audit(db)
    ann = Users(db, audit).add("ann").id
    audit.record(ann, AuditEvent("hers"))
    for number in range(8):
        audit.record(LOCAL_USER, AuditEvent(f"action {number}"))
    assert actions(audit) == [f"action {number}" for number in (7, 6, 5, 4, 3)]
    assert actions(audit, ann) == ["hers"]


def test_users_read_only_their_own_records(db: SharedDatabase) -> None:
    audit = Audit(db)
    users = Users(db, audit)
    ann, bob = users.add("ann").id, users.add("bob").id
    audit.record(ann, AuditEvent("hers"))
    audit.record(bob, AuditEvent("his"))
    assert (actions(audit, ann), actions(audit, bob)) == (["hers"], ["his"])
    assert actions(audit) == ["user_added", "user_added"]
    assert actions(audit, "stranger") == []


def test_records_of_a_removed_user_are_deleted_and_a_late_one_is_ignored(db: SharedDatabase) -> None:
    """A call that is under way when its user is removed still ends well."""
    audit = Audit(db)
    users = Users(db, audit)
    ann = users.add("ann").id
    audit.record(ann, AuditEvent("hers"))
    users.remove("ann")
    audit.record(ann, AuditEvent("too late"))
    assert actions(audit, ann) == []
    assert actions(audit) == ["user_removed", "user_added"]
