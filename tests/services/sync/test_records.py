"""Records are state: merging is commutative, associative and idempotent, so they may be lost or repeated."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_mcp.errors import Invalid
from memory_mcp.services.sync.protocol import MAX_RECORD_VALUES, MAX_STAMP_MS
from memory_mcp.services.sync.records import DELETION, NoteRecord, as_json, limit_times, merge, milliseconds, parse
from memory_mcp.text.json_counts import count_values

MOMENT = "2030-01-01T12:00:00.000Z"
STAMP = "000001893499200:00000:a"

stamps = st.builds(
    lambda ms, counter, node: f"{ms:015d}:{counter:05d}:{node}",
    st.integers(0, 4) | st.integers(0, MAX_STAMP_MS),
    st.integers(0, 2) | st.just(99999),
    st.sampled_from(["a", "b", "0f"]),
)
moments = st.builds(lambda day, ms: f"2030-01-{day:02d}T12:00:00.{ms:03d}Z", st.integers(1, 3), st.integers(0, 2))
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=4,
)
registers = st.tuples(stamps) | st.tuples(stamps, values)
names = st.sampled_from(["content", "title", "namespace", "tag/x", "metadata/k", "link/n2", "wikilink/t"])
clients = st.none() | st.sampled_from(["", "codex"])
born = st.none() | st.tuples(moments, clients)
records = st.builds(
    NoteRecord,
    id=st.just("n1"),
    registers=st.dictionaries(names, registers, max_size=5),
    importance=st.none() | st.floats(0, 1),
    last_referenced_at=st.none() | moments,
    updated_at=st.none() | moments,
    created=born,
    deleted=st.none() | st.none() | stamps,
)


def same(one: NoteRecord, other: NoteRecord) -> bool:
    """Also where Python is lenient: True == 1, and 1 == 1.0."""
    return json.dumps(as_json(one), sort_keys=True) == json.dumps(as_json(other), sort_keys=True)


@given(records, records)
def test_merging_is_commutative(one: NoteRecord, other: NoteRecord) -> None:
    assert same(merge(one, other), merge(other, one))


@given(records, records, records)
def test_merging_is_associative(one: NoteRecord, two: NoteRecord, three: NoteRecord) -> None:
    assert same(merge(merge(one, two), three), merge(one, merge(two, three)))


@given(records, records)
def test_merging_is_idempotent(one: NoteRecord, other: NoteRecord) -> None:
    merged = merge(one, other)
    assert same(merge(merged, merged), merged)
    assert same(merge(merged, one), merged)
    assert same(merge(other, merged), merged)


@given(records, records)
def test_a_deletion_always_wins_and_removes_all_values(one: NoteRecord, other: NoteRecord) -> None:
    merged = merge(one, other)
    assert bool(merged.deleted) == bool(one.deleted or other.deleted)
    if merged.deleted:
        assert merged.registers.keys() <= {"namespace"}
        assert set(as_json(merged)) <= {"id", "registers", DELETION}


@given(records, records)
def test_the_last_write_of_each_field_wins(one: NoteRecord, other: NoteRecord) -> None:
    merged = merge(one, other)
    if merged.deleted:
        return
    for name in one.registers | other.registers:
        fields = [record.registers[name] for record in (one, other) if name in record.registers]
        assert merged.registers[name] in fields
        assert merged.registers[name][0] == max(register[0] for register in fields)
    assert merged.importance == max((x.importance for x in (one, other) if x.importance is not None), default=None)
    assert merged.updated_at == max((x.updated_at for x in (one, other) if x.updated_at), default=None)


@given(stamps, stamps)
def test_stamps_sort_by_time(one: str, other: str) -> None:
    def parts(stamp: str) -> tuple[int, int, str]:
        ms, counter, node = stamp.split(":")
        return int(ms), int(counter), node

    assert (one < other) == (parts(one) < parts(other))
    assert milliseconds(one) == parts(one)[0]


@given(records)
def test_a_record_survives_json(record: NoteRecord) -> None:
    wire = json.dumps(as_json(record), ensure_ascii=False).encode()
    assert same(parse(json.loads(wire)), record)
    assert parse(json.loads(wire)) == record


@given(records)
def test_unknown_fields_are_not_sent(record: NoteRecord) -> None:
    assert None not in as_json(record).values()


@given(records, moments)
def test_times_ahead_of_the_hub_are_limited(record: NoteRecord, now: str) -> None:
    limited = limit_times(record, now)
    assert (limited.updated_at or "") <= now
    assert (limited.last_referenced_at or "") <= now
    assert limited.registers == record.registers
    if record.updated_at:
        assert limited.updated_at == min(record.updated_at, now)


def test_a_moved_note_shows_only_its_namespace() -> None:
    record = NoteRecord("n1", {"content": (STAMP, "x"), "namespace": (STAMP, "b")}, importance=1.0, updated_at=MOMENT)
    assert as_json(record.location_only) == {"id": "n1", "registers": {"namespace": (STAMP, "b")}}


# Beyond what Hypothesis builds: records that others might send.


def fields(**more: Any) -> dict[str, Any]:
    return {"id": "n1", "registers": {"content": [STAMP, "x"]}, **more}


@pytest.mark.parametrize(
    ("bad", "blamed"),
    [
        (None, "object"),
        ([], "object"),
        ("n1", "object"),
        ({}, "id"),
        (fields(id=""), "id"),
        (fields(id="x" * 65), "id"),
        (fields(id=7), "id"),
        (fields(surprise=1), "surprise"),
        (fields(registers=[]), "registers"),
        (fields(registers={"content": []}), "registers.content"),
        (fields(registers={"content": "x"}), "registers.content"),
        (fields(registers={"content": [STAMP, "x", "y"]}), "registers.content"),
        (fields(registers={"content": ["1:0:a", "x"]}), "registers.content"),
        (fields(registers={"content": [STAMP + "\n", "x"]}), "registers.content"),
        (fields(registers={"content": ["٠" * 15 + ":00000:a", "x"]}), "registers.content"),
        (fields(registers={"": [STAMP, "x"]}), "registers"),
        (fields(registers={"x" * 4097: [STAMP]}), "registers"),
        (fields(registers={f"tag/{n}": [STAMP] for n in range(10_001)}), "registers"),
        (fields(importance=-0.1), "importance"),
        (fields(importance=1.1), "importance"),
        (fields(importance=float("nan")), "importance"),
        (fields(importance="high"), "importance"),
        (fields(updated_at="yesterday"), "updated_at"),
        (fields(updated_at="2030-01-01T12:00:00Z"), "updated_at"),
        (fields(last_referenced_at=0), "last_referenced_at"),
        (fields(created=[MOMENT]), "created"),
        (fields(created=[MOMENT, "x" * 65]), "created"),
        (fields(**{DELETION: True}), DELETION),
        (fields(**{DELETION: "never"}), DELETION),
    ],
)
def test_an_invalid_record_is_refused_with_the_field(bad: object, blamed: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse(bad)
    assert blamed in refused.value.message
    assert len(refused.value.message) < 500


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "\ud800", {"\udfff": 1}])
def test_invalid_utf_8_is_refused(value: Any) -> None:
    with pytest.raises(Invalid):
        parse(fields(registers={"content": [STAMP, value]}))


def test_deeply_nested_values_are_refused() -> None:
    deep: Any = "x"
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(Invalid):
        parse(fields(registers={"metadata/k": [STAMP, deep]}))


@pytest.mark.parametrize("value", ["x" * 5_000_000, 10**400, -0.0, 1e-300, "\x00", "\u2028", [[]], {"": None}])
def test_large_and_unusual_values_stay_unchanged(value: Any) -> None:
    record = parse(fields(registers={"metadata/k": [STAMP, value]}))
    again = parse(json.loads(json.dumps(as_json(record))))
    assert json.dumps(again.registers["metadata/k"][1:]) == json.dumps([value])
    assert same(merge(record, again), record)


@pytest.mark.parametrize(("one", "other"), [(1, True), (1, 1.0), (0, False), ([1], [True])])
def test_values_equal_in_python_have_an_order(one: Any, other: Any) -> None:
    first, second = (NoteRecord("n1", {"metadata/k": (STAMP, value)}) for value in (one, other))
    assert same(merge(first, second), merge(second, first))


def _count(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(_count, inner))


@given(values | texts.map(lambda text: [text, '\\"[,', text]))
def test_counting_values_ignores_strings(value: Any) -> None:
    counted = count_values(json.dumps(value, ensure_ascii=False).encode(), MAX_RECORD_VALUES)
    assert _count(value) <= counted <= 2 * _count(value) + 2


def test_a_record_with_too_many_values_is_refused() -> None:
    fields = {"id": "a", "registers": {"metadata/k": [STAMP, [0] * 524_288]}}
    assert parse(fields).id == "a"
    fields["registers"] = {"metadata/k": [STAMP, [0] * MAX_RECORD_VALUES]}
    with pytest.raises(Invalid, match="values"):
        parse(fields)
