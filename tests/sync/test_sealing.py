"""What a note says is sealed before it leaves a node, and the hub can still merge it."""

import json

import pytest
from hypothesis import given
from pydantic import JsonValue

from memory_mcp.errors import Invalid
from memory_mcp.sync.records import Record, as_json, merge, parse
from memory_mcp.sync.sealing import Seal, new_secret
from tests.sync.test_records import STAMP, records, same

SECRET = "mms_" + "A" * 43
SEAL = Seal(SECRET)


@given(records)
def test_what_was_sealed_is_opened_as_it_was(record: Record) -> None:
    sealed = parse(json.loads(json.dumps(as_json(SEAL.seal(record)))))
    assert same(SEAL.open(sealed), record)


@given(records)
def test_the_same_note_sealed_twice_is_the_same(record: Record) -> None:
    assert same(SEAL.seal(record), Seal(SECRET).seal(record))


@given(records, records)
def test_the_hub_merges_what_it_cannot_read(one: Record, other: Record) -> None:
    sealed, opened = SEAL.open(merge(SEAL.seal(one), SEAL.seal(other))), merge(one, other)
    stamps = {name: register[0] for name, register in opened.registers.items()}
    assert {name: register[0] for name, register in sealed.registers.items()} == stamps
    for name, register in sealed.registers.items():
        assert register in (one.registers.get(name), other.registers.get(name))  # equal stamps: any, but the same
    assert sealed.dead == opened.dead


def test_nothing_a_person_wrote_is_to_be_seen() -> None:
    written: dict[str, JsonValue] = {
        "content": "wombat one",
        "title": "wombat two",
        "folder": "wombat/three",
        "expires_at": "2031-wombat",
        "tag/wombat-four": ["Wombat-Four", "user"],
        "metadata/wombat-five": {"wombat": "six"},
        "wikilink/wombat seven": "n2",
    }
    record = Record("n1", {name: (STAMP, value) for name, value in written.items()})
    removed = Record("n1", dict.fromkeys(written, (STAMP,)))
    for one in (record, removed):
        assert "wombat" not in json.dumps(as_json(SEAL.seal(one))).casefold()


@pytest.mark.parametrize("title", ["🦘" * 300, "ΐ" * 900, "x" * 300])
def test_the_longest_titles_fit_when_sealed(title: str) -> None:
    parse(as_json(SEAL.seal(Record("n1", {f"wikilink/{title}": (STAMP, "n2")}))))


def test_a_value_cannot_be_moved_to_another_note_field_or_time() -> None:
    sealed = SEAL.seal(Record("n1", {"content": (STAMP, "text"), "tag/x": (STAMP, ["x", "user"])}))
    content = sealed.registers["content"]
    later = STAMP.replace("0:a", "1:a")
    for forged in (
        Record("n2", sealed.registers),
        Record("n1", {"title": content}),
        Record("n1", {"content": (later, content[1])}),  # type: ignore[misc]
        Record("n1", {"content": (STAMP, "plain")}),
        Record("n1", {"content": (STAMP, {"sealed": "???"})}),
        Record("n1", {"tag/bm90aGluZw==": (STAMP,)}),
    ):
        with pytest.raises(Invalid, match="secret"):
            SEAL.open(forged)


def test_another_secret_opens_nothing() -> None:
    other = Seal(new_secret())
    assert other.fingerprint != SEAL.fingerprint
    with pytest.raises(Invalid, match="secret"):
        other.open(SEAL.seal(Record("n1", {"content": (STAMP, "text")})))


@pytest.mark.parametrize("secret", ["", "x", "mms_", "mms_short", "A" * 43, "mms_" + "A" * 44, "mms_" + "é" * 43])
def test_what_is_no_secret_is_refused(secret: str) -> None:
    with pytest.raises(Invalid, match="no secret"):
        Seal(secret)
