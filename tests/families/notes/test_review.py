"""Pairs of notes that a person should look at."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from memory_mcp.caller import ALL_SCOPES, LOCAL_USER, Caller
from memory_mcp.families.notes.review import kind_of_pair
from memory_mcp.services.embedding import worker
from memory_mcp.services.search.cosines import Cosines
from memory_mcp.services.search.packed_vectors import PackedVectors
from memory_mcp.services.search.vectors import Floats
from tests.services.embedding.servers import needs_model, server

ME = Caller(LOCAL_USER, ALL_SCOPES, frozenset({"notes"}))
AT_TWO = "The staging server is restarted every night at two o'clock."
AT_FIVE = "The staging server is restarted every night at five o'clock."


@pytest.mark.parametrize(
    ("one", "other", "cosine", "kind"),
    [
        ("Tea is what I drink", "tea is what I drink!", 1.0, "same"),
        ("Tea is what I drink", "Tea is what I drink every day", 0.96, "same"),
        (AT_TWO, AT_FIVE, 0.9, "contradicting"),
        (AT_TWO, "We restart staging nightly.", 0.9, None),
        ("The rent is 1.200 a month", "The rent is 1.300 a month", 0.99, "contradicting"),
        ("a " * 300 + "b", "a " * 300 + "c", 0.99, "same"),  # long texts always differ in some word
        ("", "", 0.0, None),
    ],
)
def test_words_decide_whether_two_notes_may_contradict_each_other(
    one: str, other: str, cosine: float, kind: str | None
) -> None:
    assert kind_of_pair(one, other, cosine) == kind


@needs_model
def test_notes_are_paired_within_their_namespace_unless_they_are_linked_or_superseded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "MAX_WAIT_S", 15.0)  # a busy machine must not make this test fail
    with server(tmp_path, embedder="builtin") as notes:

        def create(content: str, **more: object) -> str:
            return str(notes.call("memory_create", content=content, **more)["id"])

        def pairs() -> list[tuple[str, str, str]]:
            found = notes.app.notes.review.pairs(ME, None, 30)
            return [(pair.kind, pair.newer.id, pair.older.id) for pair in found.pairs]

        two, elsewhere = create(AT_TWO), create(AT_TWO, namespace="elsewhere")
        create("The production database is backed up on Sundays.")
        assert pairs() == []
        five = create(AT_FIVE)
        again = create(AT_TWO.lower(), namespace="elsewhere")
        assert sorted(pairs()) == [("contradicting", five, two), ("same", again, elsewhere)]

        notes.call("memory_link", source_id=elsewhere, target_id=again)
        assert pairs() == [("contradicting", five, two)]
        notes.call("memory_update", id=five, supersedes=[two])
        assert pairs() == []
        assert notes.app.notes.review.attention(ME).superseded == 1


@needs_model
def test_notes_are_compared_with_all_others_in_one_pass_and_once_for_each_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "MAX_WAIT_S", 15.0)
    passes: list[int] = []  # over all vectors, with the number of notes compared
    compare = PackedVectors.cosines_of

    def count(packed: PackedVectors, queries: Sequence[Floats]) -> list[Cosines]:
        passes.append(len(queries))
        return compare(packed, queries)

    with server(tmp_path, embedder="builtin") as notes:
        review = notes.app.notes.review
        old = str(notes.call("memory_create", content=AT_TWO)["id"])
        notes.call("memory_create", content="Tea calms me.")
        monkeypatch.setattr(PackedVectors, "cosines_of", count)
        review.pairs(ME, None, 30)
        review.pairs(ME, None, 30)
        assert passes == [2]
        notes.call("memory_create", content=AT_FIVE)
        passes.clear()  # the answer names the nearest note, too
        assert len(review.pairs(ME, None, 30).pairs) == 1
        assert passes == [1]
        notes.call("memory_update", id=old, content="Coffee keeps me awake.")
        assert review.pairs(ME, None, 30).pairs == []


def test_the_review_goes_on_with_older_notes(tmp_path: Path) -> None:
    with server(tmp_path, embedder="none") as notes:
        texts = ["Coffee keeps me awake", "Tea calms me", "Coffee keeps me awake", "Tea calms me"]
        ids = [str(notes.call("memory_create", content=text)["id"]) for text in texts]
        review, found, after = notes.app.notes.review, [], None
        for _ in range(5):
            part = review.pairs(ME, after, 1)
            found.append([{pair.newer.id, pair.older.id} for pair in part.pairs])
            after = part.following
            if after is None:
                break
        tea, coffee = {ids[1], ids[3]}, {ids[0], ids[2]}
        assert found == [[tea], [coffee], [], [], []]  # each pair once, with the newer note
