"""A read that shows a part of a write makes a history that no order explains."""

import pytest
from benchmarks.chaos.histories import subjects
from benchmarks.linearizability import Operation, is_linearizable

SUBJECTS = {subject.name: subject for subject in subjects("note", 0)}


def observed(*observations: list[str]) -> dict[str, object]:
    return {"entities": [{"observations": one} for one in observations]}


def rows(*cells: tuple[str, str]) -> dict[str, object]:
    return {"rows": [{"part": part, "text": text} for part, text in cells]}


FIRST = [(part, "first") for part in "abc"]


@pytest.mark.parametrize(
    ("family", "answer", "is_whole"),
    [
        ("notes", {"content": "new", "title": "new"}, True),
        ("notes", {"content": "new", "title": "first"}, False),
        ("graph", observed(*[["first", "new"]] * 3), True),
        ("graph", observed(["first", "new"], ["first", "new"], ["first"]), False),
        ("portals", rows(*FIRST, *[(part, "new") for part in "abc"]), True),
        ("portals", rows(*FIRST, ("a", "new")), False),
    ],
)
def test_a_read_shows_a_write_whole_or_not_at_all(family: str, answer: dict[str, object], is_whole: bool) -> None:
    subject = SUBJECTS[family]
    history = [Operation("write", "new", None, 0, 5), Operation("read", None, subject.value(answer), 1, 2)]
    assert is_linearizable(history, subject.model) == is_whole
