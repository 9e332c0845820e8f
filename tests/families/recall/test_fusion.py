"""The matches of all families in one order."""

from dataclasses import replace

import pytest

from memory_mcp.families.recall.fusion import RANK_SHARE, fused
from memory_mcp.families.texts import Match
from memory_mcp.services.search import ranking
from memory_mcp.services.search.text_facts import TextFacts


def match(ref: str, score: float, cosine: float | None = None, lexical: float | None = 0.5) -> Match:
    return Match(ref, ref, ref, score, cosine, lexical)


def written(ref: str, session: str | None, minute: int, cosine: float | None = 0.3, lexical: float = 0.2) -> Match:
    """A match that a session wrote at a minute after noon."""
    at = f"2030-01-01T{12 + minute // 60}:{minute % 60:02}:00.000Z"
    score = ranking.score(cosine, lexical, ranking.DEFAULT_IMPORTANCE)
    return Match(ref, ref, ref, score, cosine, lexical, TextFacts(session_id=session, written_at=at))


def scores(found: dict[str, list[Match]]) -> dict[str, float]:
    return {hit.match.ref: hit.score for hit in fused(found)}


def test_the_better_match_comes_first_whatever_its_family() -> None:
    found = {"vault": [match("a", 0.9), match("b", 0.3)], "notes": [match("c", 0.8), match("d", 0.7)]}
    assert [hit.match.ref for hit in fused(found)] == ["a", "c", "d", "b"]


def test_scores_stay_between_zero_and_one() -> None:
    [best] = fused({"vault": [match("a", 1.0, 1.0, 1.0)]})
    [worst] = fused({"vault": [match("a", 0.0, 0.0, 0.0)]})
    assert best.score == 1
    assert worst.score == RANK_SHARE


def test_of_equals_the_order_is_always_the_same() -> None:
    found = {family: [match(ref, 0.5) for ref in "ab"] for family in ("vault", "notes")}
    assert [(hit.family, hit.match.ref) for hit in fused(found)] == [
        ("notes", "a"),
        ("vault", "a"),
        ("notes", "b"),
        ("vault", "b"),
    ]


def test_a_match_without_a_vector_has_no_advantage() -> None:
    """The same words, once with a meaning as near as such words usually are."""
    lexical = 0.9
    cosine = ranking.UNRELATED + 0.3
    known = match("known", ranking.score(cosine, lexical, 0.5), cosine, lexical)
    unknown = match("unknown", ranking.score(None, lexical, 0.5), None, lexical)
    assert unknown.score > known.score
    assert [hit.match.ref for hit in fused({"notes": [known], "vault": [unknown]})] == ["known", "unknown"]
    assert fused({"vault": [unknown]})[0].score > 0.8


# Sessions


@pytest.mark.parametrize("cosine", [0.6, None])
def test_a_text_is_found_by_what_the_same_session_wrote_just_before_in_another_family(cosine: float | None) -> None:
    question = written("question", "a", 0, cosine, 0.9)
    answers = [written("answer", "a", 1, cosine and 0.3), written("other", "b", 1, cosine and 0.3)]
    found = scores({"vault": [question], "stores": answers[:1], "graph": answers[1:]})
    assert found["answer"] > found["other"] + 0.05
    assert found["question"] > found["answer"]


def test_a_text_written_long_before_or_after_is_no_context() -> None:
    """All in one session, so that the session itself makes no difference."""
    question, answer = written("question", "a", 40, 0.6, 0.9), written("answer", "a", 41)
    before, much_later = written("before", "a", 9), written("much later", "a", 72)
    found = scores({"vault": [question], "stores": [answer], "graph": [before], "portals": [much_later]})
    assert found["before"] == found["much later"] < found["answer"]


def test_only_the_last_text_before_counts() -> None:
    question, between, later = (
        written("question", "a", 0, 0.6, 0.9),
        written("between", "a", 1),
        written("later", "a", 2),
    )
    found = scores({"vault": [question], "stores": [between], "graph": [later]})
    assert found["later"] < found["between"]


def test_texts_that_were_written_at_once_are_no_context_of_each_other_and_have_the_same() -> None:
    question, weak = written("question", "a", 0, 0.6, 0.9), written("weak", "a", 0)
    several = [written(ref, "a", 1) for ref in ("one", "two")]
    alone = written("alone", "a", 90)
    found = scores(
        {"vault": [question], "notes": [weak], "stores": several[:1], "graph": several[1:], "portals": [alone]}
    )
    assert found["one"] == found["two"] > found["weak"] == found["alone"]


def test_a_family_that_counts_the_text_before_itself_does_not_get_it_twice() -> None:
    def lifted(*, has_context: bool) -> float:
        matches = [written("question", "a", 0, 0.6, 0.9), replace(written("answer", "a", 1), has_context=has_context)]
        return scores({"notes": matches})["answer"]

    assert lifted(has_context=True) < lifted(has_context=False)


def test_texts_of_the_best_session_come_first() -> None:
    best = [written("best", "a", 0, 0.9, 0.9), written("good", "a", 50, 0.8, 0.8)]
    same, other = written("same", "a", 100), written("other", "b", 100)
    alone = written("alone", None, 100)
    found = scores({"vault": best, "stores": [same], "graph": [other], "portals": [alone]})
    assert found["same"] > found["other"] == found["alone"]


def test_a_note_that_is_superseded_never_comes_before_its_successor() -> None:
    question = written("question", "a", 0, 0.9, 0.9)
    old = replace(written("old", "a", 1), superseded_by="new")
    found = {"vault": [question], "notes": [written("new", "b", 90), old]}
    assert [hit.match.ref for hit in fused(found)] == ["question", "new", "old"]
    without = {"vault": [question], "notes": [written("new", "b", 90), written("old", "a", 1)]}
    assert [hit.match.ref for hit in fused(without)] == ["question", "old", "new"]


def test_scores_with_sessions_stay_between_zero_and_one() -> None:
    high = [written(str(minute), "a", minute, 1.0, 1.0) for minute in range(5)]
    low = [written(f"low {minute}", f"s{minute % 3}", minute, 0.05, 0.0) for minute in range(50)]
    assert all(0 <= score <= 1 for score in scores({"vault": high, "stores": low}).values())
