"""Notes are sealed before they leave a node, and the hub can still merge them."""

import json
from typing import Any

import pytest
from hypothesis import given
from pydantic import JsonValue

from memory_mcp.errors import Invalid
from memory_mcp.services.sync.encryption import Seal, new_secret
from memory_mcp.services.sync.records import DELETION, NoteRecord, Register, as_json, merge, parse
from tests.services.sync.test_records import STAMP, records, same

SECRET = "mms_" + "A" * 43
SEAL = Seal(SECRET)


@given(records)
def test_opening_reverses_sealing(record: NoteRecord) -> None:
    sealed = parse(json.loads(json.dumps(as_json(SEAL.seal(record)))))
    assert same(SEAL.open(sealed), record)


@given(records)
def test_sealing_is_deterministic(record: NoteRecord) -> None:
    assert same(SEAL.seal(record), Seal(SECRET).seal(record))


@given(records, records)
def test_sealed_records_merge(one: NoteRecord, other: NoteRecord) -> None:
    sealed, opened = SEAL.open(merge(SEAL.seal(one), SEAL.seal(other))), merge(one, other)
    stamps = {name: register[0] for name, register in opened.registers.items()}
    assert {name: register[0] for name, register in sealed.registers.items()} == stamps
    for name, register in sealed.registers.items():
        assert register in (one.registers.get(name), other.registers.get(name))  # equal stamps: any, but the same
    assert sealed.deleted == opened.deleted


def test_sealed_records_show_no_user_text() -> None:
    written: dict[str, JsonValue] = {
        "content": "wombat one",
        "title": "wombat two",
        "folder": "wombat/three",
        "expires_at": "2031-wombat",
        "tag/wombat-four": ["Wombat-Four", "user"],
        "metadata/wombat-five": {"wombat": "six"},
        "wikilink/wombat seven": "n2",
    }
    record = NoteRecord("n1", {name: (STAMP, value) for name, value in written.items()})
    removed = NoteRecord("n1", dict.fromkeys(written, (STAMP,)))
    for one in (record, removed):
        assert "wombat" not in json.dumps(as_json(SEAL.seal(one))).casefold()


@pytest.mark.parametrize("title", ["🦘" * 300, "ΐ" * 900, "x" * 300])
def test_titles_of_maximum_length_fit_when_sealed(title: str) -> None:
    parse(as_json(SEAL.seal(NoteRecord("n1", {f"wikilink/{title}": (STAMP, "n2")}))))


LATER = STAMP.replace("0:a", "1:a")
WHOLE = NoteRecord(
    "n1",
    {
        "content": (STAMP, "text"),
        "tag/x": (STAMP, ["x", "user"]),
        "metadata/k": (STAMP,),
        "namespace": (STAMP, "default"),
        "archived": (STAMP, True),
        "link/n2": (STAMP, "n2"),
    },
)
SEALED = SEAL.seal(WHOLE)


def value(name: str, record: NoteRecord = SEALED) -> Any:
    _, found = record.registers[name]  # type: ignore[misc]  # it has one
    return found


@pytest.mark.parametrize(
    "forged",
    [
        NoteRecord("n2", SEALED.registers),
        NoteRecord("n1", {"title": (STAMP, value("content"))}),
        NoteRecord("n1", {"link/n3": (STAMP, value("link/n2"))}),
        *(NoteRecord("n1", {name: (LATER, value(name))}) for name in SEALED.registers),
        *(NoteRecord("n1", {name: (LATER,)}) for name in SEALED.registers),  # as if a node had removed it
        *(
            NoteRecord("n1", {name: (LATER, value(name, WHOLE))})
            for name in ("content", "namespace", "archived", "link/n2")
        ),
        NoteRecord("n1", {"content": (STAMP, {"sealed": "???"})}),
        NoteRecord("n1", {"content": (STAMP, {"sealed2": "???"})}),
        NoteRecord("n1", {"content": (STAMP, {"sealed": value("content")["sealed2"]})}),
        NoteRecord("n1", {"content": (STAMP, {"sealed2": 7})}),
        NoteRecord("n1", {"tag/bm90aGluZw==": (STAMP,)}),
        NoteRecord("n1", {"namespace": (STAMP, {**value("namespace"), "open": "other"})}),
        NoteRecord("n1", {"namespace": (STAMP, {"sealed2": value("namespace")["sealed2"]})}),
        NoteRecord("n1", deleted=STAMP),
        NoteRecord("n1", {DELETION: (STAMP,)}, deleted=STAMP),
        NoteRecord("n1", {DELETION: (STAMP, value("content"))}, deleted=STAMP),
        NoteRecord("n1", {DELETION: SEAL.seal(NoteRecord("n2", deleted=STAMP)).registers[DELETION]}, deleted=STAMP),
        NoteRecord("n1", {DELETION: SEAL.seal(NoteRecord("n1", deleted=STAMP)).registers[DELETION]}, deleted=LATER),
    ],
)
def test_forged_removed_and_moved_values_are_refused(forged: NoteRecord) -> None:
    with pytest.raises(Invalid, match=r"secret|not sealed"):
        SEAL.open(forged)


def test_a_deletion_is_sealed_and_stays_so_when_it_is_merged() -> None:
    deleted = NoteRecord("n1", {"namespace": (LATER, "default")}, deleted=LATER)
    for merged in (
        merge(SEALED, SEAL.seal(deleted)),
        merge(SEAL.seal(deleted), SEALED),
        SEAL.seal(deleted).location_only,
    ):
        assert SEAL.open(parse(json.loads(json.dumps(as_json(merged))))) == deleted
        assert merged.namespace == "default"


def first_format(record: NoteRecord) -> NoteRecord:
    """A record as the first version sealed it: only values, not removals, moves, links and deletions."""
    sealed: dict[str, Register] = {
        name: (register[0], {"sealed": SEAL._encrypt(register[1], record.id, name, register[0])})
        for name, register in record.registers.items()
        if len(register) == 2
    }
    return NoteRecord(record.id, sealed)


def test_first_format_values_open_and_lose_to_the_current_format() -> None:
    record = NoteRecord("n1", {"content": (STAMP, "text"), "title": (STAMP, None)})
    assert SEAL.open(first_format(record)) == record
    assert merge(first_format(record), SEAL.seal(record)) == SEAL.seal(record)
    left_open = NoteRecord("n1", {"namespace": (STAMP, "default"), "metadata/k": (STAMP,), "archived": (STAMP, True)})
    for name, register in left_open.registers.items():
        shown, sealed = SEAL._seal_register("n1", name, register)
        with pytest.raises(Invalid, match="resync"):
            SEAL.open(NoteRecord("n1", {shown: register}))
        assert merge(NoteRecord("n1", {shown: register}), NoteRecord("n1", {shown: sealed})).registers == {
            shown: sealed
        }


def test_another_secret_opens_nothing() -> None:
    other = Seal(new_secret())
    assert other.fingerprint != SEAL.fingerprint
    with pytest.raises(Invalid, match="secret"):
        other.open(SEAL.seal(NoteRecord("n1", {"content": (STAMP, "text")})))


@pytest.mark.parametrize("secret", ["", "x", "mms_", "mms_short", "A" * 43, "mms_" + "A" * 44, "mms_" + "é" * 43])
def test_a_malformed_secret_is_refused(secret: str) -> None:
    with pytest.raises(Invalid, match="not a sync secret"):
        Seal(secret)
