"""memory_search without an embedder: words, filters, context, what is superseded, snippets and scores."""

from datetime import timedelta
from typing import Any

import pytest
from mcp import Client

from memory_mcp.app import App
from memory_mcp.families.notes.model import Author
from memory_mcp.server.protocol import McpServer
from tests.conftest import Clock, connected
from tests.families.notes.calls import (
    call,
    create,
    create_alone,
    delete,
    found,
    get,
    links,
    refusal,
    score,
    search,
    update,
    write,
)

pytestmark = pytest.mark.anyio


@pytest.fixture
def era() -> str:
    """The rules are the same in both eras; other modules test each."""
    return "2026-07-28"


FILLER = "Nothing of any interest stands here, and it goes on like that for quite a while. " * 40


async def test_a_hit_is_a_summary_with_its_score(client: Client) -> None:
    note = await create(client, "We decided on nightly backups.", title="Backups", tags=["ops"], importance=0.7)

    answer = await call(client, "memory_search", query="backups")
    [hit] = answer["memories"]
    assert answer == {"memories": [hit]}
    assert hit == {
        "id": note["id"],
        "title": "Backups",
        "snippet": "We decided on nightly backups.",
        "tags": note["tags"],
        "importance": 0.7,
        "namespace": "default",
        "created_at": note["created_at"],
        "updated_at": note["updated_at"],
        "last_referenced_at": None,
        "score": hit["score"],
        "score_breakdown": {"cosine": None, "lexical": 0.95, "importance": 0.7},
        "origin": "mcp",  # the name of the client
    }
    assert hit["score"] == round((0.35 * 0.95 + 0.10 * 0.7) / 0.45, 6)


async def test_a_natural_question_finds_its_answer_first(client: Client, clock: Clock) -> None:
    for content in (
        "We decided on nightly backups to the second site.",
        "We decided to have lunch at noon.",
        "The user likes vim.",
    ):
        await create_alone(client, clock, content)

    assert (await found(client, "What did we decide about backups?"))[0].startswith("We decided on nightly")
    assert (await found(client, "which editor does the user like?"))[0] == "The user likes vim."


async def test_a_question_with_a_quoted_phrase_is_plain_words(client: Client, clock: Clock) -> None:
    await create_alone(client, clock, "The nightly backups go to the second site.")
    await create_alone(client, clock, "Lunch is at noon.")

    assert (await found(client, 'what did we say about "nightly backups"'))[:1] == [
        "The nightly backups go to the second site."
    ]


async def test_apostrophes_are_ignored(client: Client, clock: Clock) -> None:
    for number in range(5):
        await create_alone(client, clock, f"the wombat did thing {number}")
    await create_alone(client, clock, "It's Tom's, and they don't know.")

    for query in ("what's the wombat doing?", "isn't that the wombat's?", "What’s the wombat doing?"):
        assert all("wombat" in title for title in (await found(client, query))[:5]), query


@pytest.mark.parametrize(
    "content",
    ["Do NOT deploy on Fridays", "Parts: two wheels", "Context: the move to Rome", 'He said "no" AND left'],
)
async def test_a_note_is_found_by_its_exact_text(client: Client, clock: Clock, content: str) -> None:
    await create_alone(client, clock, content)
    await create_alone(client, clock, "something else")

    assert (await found(client, content))[:1] == [content]


async def test_a_word_of_title_tags_or_body_is_enough(client: Client, clock: Clock) -> None:
    await create_alone(client, clock, "body", title="Gardening")
    await create_alone(client, clock, "tagged", tags=["gardening"])
    await create_alone(client, clock, "about gardening")
    await create_alone(client, clock, "inline #gardening")

    assert set(await found(client, "gardening")) == {"Gardening", "tagged", "about gardening", "inline #gardening"}
    assert await found(client, "mcp memory default") == []


async def test_text_is_found_in_every_script_and_case(client: Client, clock: Clock) -> None:
    pairs = [
        ("数据库备份策略", "备份"),
        ("数据库备份策略", "我们的备份策略是什么"),
        ("データベースの設定", "設定"),
        ("데이터베이스 백업", "백업"),
        ("Crème brûlée at the café", "CREME BRULEE"),
        ("call getUserName() first", "user"),
        ("call getUserName() first", "get_user_name"),
        ("set max_retry_count", "maxRetryCount"),
        ("see src/app.py:17", "src/app.py:17"),
        ("the HTTPServer class", "server"),
        ("nightly backups", "backup"),
        ("ＦＵＬＬ width", "full"),
        ("party 🎉", "🎉"),
        ("हिन्दी में लिखा", "हिन्दी"),
    ]
    for content in dict.fromkeys(content for content, _ in pairs):
        await create_alone(client, clock, content)

    for content, query in pairs:
        assert (await found(client, query))[:1] == [content], query


async def test_no_query_is_an_error(client: Client) -> None:
    await create(client, "what is new in c++ 🎉 foo")

    for query in (
        *("what's new?", "c++", '"', "AND", "NOT", "foo:bar baz", "(((", "*", "a AND", "NEAR(", '"open', "🎉", "-"),
        *(
            "{x}: y",
            "\x00",
            "^",
            "'; DROP TABLE notes; --",
            "%",
            "_",
            "\\",
            "NEAR(a b, x)",
            "title:",
            "{title",
            "é" * 5000,
        ),
        *("what is it", " ", "\u200b", "a" * 10_000, "x " * 5000),
    ):
        await search(client, query, namespace="default")


# Filters


async def test_filters_apply_before_the_limit(client: Client, app: App) -> None:
    for number in range(300):
        write(app, "deploy deploy deploy", namespace="loud", importance=1.0, title=f"deploy {number}")
    write(app, "once we had to deploy by hand, on a Sunday", namespace="quiet", importance=0.1, tags=("by-hand",))

    for narrow in ({"namespace": "quiet"}, {"tags": ["by-hand"]}, {"namespace": "quiet", "tags": ["by-hand"]}):
        for query in ("deploy", "how do we deploy?", ""):
            [hit] = await search(client, query, limit=1, **narrow)
            assert hit["importance"] == 0.1


async def test_hits_have_all_tags(client: Client) -> None:
    await create(client, "one", tags=["Ops", "prod"])
    await create(client, "two", tags=["ops"])

    assert await found(client, tags=["ops", "PROD", "#ops"]) == ["one"]
    assert set(await found(client, tags=["ops"])) == {"one", "two"}
    assert await found(client, tags=["op"]) == await found(client, "one", tags=["ops", "none"]) == []
    assert set(await found(client, tags=["mcp", "ns/default"])) == {"one", "two"}


async def test_importance_and_source_filter(client: Client, app: App) -> None:
    await create(client, "low", importance=0.2)
    await create(client, "high", importance=0.3)
    write(app, "imported", author=Author("import"))

    assert set(await found(client, min_importance=0.3)) == {"high", "imported"}
    assert await found(client, "low high", min_importance=0.3) == ["high"]
    assert await found(client, source="import") == await found(client, "imported", source="import") == ["imported"]
    assert set(await found(client, source="mcp")) == {"low", "high"}


async def test_a_whole_day_is_found_without_words(client: Client, clock: Clock) -> None:
    for day, hour in ((1, 23), (2, 0), (2, 12), (2, 23), (3, 0)):
        clock.now = clock.now.replace(day=day, hour=hour)
        await create(client, f"{day} at {hour}")

    that_day = {"created_after": "2030-01-02", "created_before": "2030-01-02"}
    assert await found(client, **that_day) == ["2 at 23", "2 at 12", "2 at 0"]
    assert await found(client, limit=2, **that_day) == ["2 at 23", "2 at 12"]
    assert await found(client, "12", created_after="2030-01-02") == ["2 at 12"]
    assert await found(client, created_after="2030-01-02T12:00:00Z", created_before="2030-01-02T23:00:00Z") == [
        "2 at 12"
    ]
    assert await found(client, created_before="2030-01-01T18:00:00-05:00") == []
    assert await found(client, created_before="2030-01-01T18:01:00-05:00") == ["1 at 23"]
    assert await found(client, created_before="2029-12-31") == []


@pytest.mark.parametrize("date", ["20300101", "2030-W01-2", "9999-12-31"])
async def test_a_date_in_any_form_includes_its_day(client: Client, date: str) -> None:
    await create(client, "on the first")

    assert await found(client, created_before=date) == ["on the first"]


async def test_a_search_without_words_and_filter_is_refused(client: Client) -> None:
    nothing: list[dict[str, Any]] = [{}, {"query": " "}, {"query": "", "limit": 5}, {"min_importance": 0}, {"tags": []}]
    for arguments in nothing:
        refused = await refusal(client, "memory_search", **arguments)
        assert (refused["error"], refused["data"]) == ("invalid", {"field": "query"})
        assert "memory_recent" in refused["message"]


# Scores


async def test_parts_that_were_not_computed_are_null(client: Client) -> None:
    await create(client, "some words", importance=0.4)

    for mode in ("hybrid", "lexical"):
        [hit] = await search(client, "words", search_mode=mode)
        assert hit["score_breakdown"] == {"cosine": None, "lexical": 0.95, "importance": 0.4}
    [hit] = await search(client, "", namespace="default")
    assert hit["score_breakdown"] == {"cosine": None, "lexical": None, "importance": 0.4}
    assert hit["score"] == 0.4


async def test_semantic_search_falls_back_to_words_with_a_notice(client: Client) -> None:
    await create(client, "some words")

    answer = await call(client, "memory_search", query="words", search_mode="semantic")
    assert [hit["title"] for hit in answer["memories"]] == ["some words"]
    assert "words alone" in answer["notice"]
    assert "notice" not in await call(client, "memory_search", query="words")


async def test_the_better_match_comes_first_and_importance_decides_between_equals(client: Client, clock: Clock) -> None:
    await create_alone(client, clock, "alpha beta", title="both", importance=0)
    await create_alone(client, clock, "alpha", title="one", importance=1)
    await create_alone(client, clock, "alpha beta", title="both and important", importance=1)

    hits = await search(client, "alpha beta")
    assert [hit["title"] for hit in hits] == ["both and important", "both", "one"]
    assert hits == sorted(hits, key=lambda hit: -hit["score"])


async def test_the_order_is_stable_and_a_limit_cuts_its_end(client: Client, app: App) -> None:
    for number in range(30):
        write(app, "same words here", title=f"n{number}")

    everything = await found(client, "words", limit=100)
    assert len(everything) == 30
    for limit in (1, 7, 20):
        assert await found(client, "words", limit=limit) == everything[:limit]
    assert len(await found(client, "words")) == 20


async def test_a_long_answer_is_cut_between_notes_with_a_notice(client: Client, app: App) -> None:
    for _ in range(30):
        write(app, "word", tags=tuple(f"{number}-{'x' * 90}" for number in range(64)))

    result = await client.call_tool("memory_search", {"query": "word", "limit": 30})
    assert isinstance(result.structured_content, dict)
    shown = len(result.structured_content["memories"])
    assert 1 <= shown < 30
    assert f"{30 - shown} more" in result.structured_content["notice"]
    assert len(result.content[0].text.encode()) < 100_000  # type: ignore[union-attr]  # it is a text


# Snippets


@pytest.mark.parametrize(
    ("match", "query"),
    [
        ("the wombat sleeps", "wombat"),
        ("several wombats were sleeping", "Which wombat sleeps?"),
        ("a café on the corner", "CAFE"),
        ("备份策略已经决定", "备份"),
        ("我们的设定在这里", "设定在哪里"),
        ("call getUserName() there", "user name"),
        ("the max_retry_count is 5", "retry"),
        ("ＦＵＬＬ width", "full"),
        ("party 🎉 time", "🎉"),
        ("the backups ran", "back*"),
    ],
)
async def test_the_snippet_shows_the_match_anywhere_in_the_note(client: Client, match: str, query: str) -> None:
    for content in (
        f"{match} {FILLER}",
        f"{FILLER} {match} {FILLER}",
        f"{FILLER} {match}",
        f"{FILLER}\n\n{match}\n",
    ):
        note = await create(client, content, title="t")
        [hit] = await search(client, query)
        assert match in hit["snippet"], content[:20]
        await delete(client, note, soft=False)


async def test_a_match_in_the_title_alone_shows_the_beginning(client: Client) -> None:
    await create(client, "Short text.", title="Wombats")

    [hit] = await search(client, "wombat")
    assert hit["snippet"] == "Short text."


async def test_a_snippet_keeps_lines_and_marks_gaps(client: Client) -> None:
    await create(client, f"{FILLER}\n\nthe\twombat\nsleeps {FILLER}")

    [hit] = await search(client, "wombat")
    assert "…the wombat\nsleeps" in hit["snippet"]
    assert hit["snippet"].startswith("…")
    assert hit["snippet"].endswith("…")


# The note before


async def test_a_note_is_found_by_the_words_of_the_one_before_it_and_comes_after_that(client: Client) -> None:
    await create(client, "Where does the wombat sleep?")
    await create(client, "In the shed behind the house.", importance=1)

    hits = await search(client, "wombat")
    assert [hit["title"] for hit in hits] == ["Where does the wombat sleep?", "In the shed behind the house."]
    assert hits[1]["snippet"] == "In the shed behind the house."
    assert hits[0]["score_breakdown"]["lexical"] > hits[1]["score_breakdown"]["lexical"] > 0


async def test_the_words_of_a_question_count_more_for_the_note_after_it_than_those_of_a_statement(
    client: Client, clock: Clock
) -> None:
    for place, mark in (("shed", "?"), ("den", "？ "), ("barn", "."), ("hut", "")):
        await create_alone(client, clock, f"Where the wombat sleeps{mark}")
        await create(client, f"In the {place}.")

    parts = {hit["title"]: hit["score_breakdown"]["lexical"] for hit in await search(client, "wombat sleeps")}
    assert parts["In the shed."] == parts["In the den."] > parts["In the barn."] == parts["In the hut."] > 0


async def test_a_long_note_that_ends_with_a_question_is_no_question(client: Client, clock: Clock) -> None:
    await create_alone(client, clock, "Where does the wombat sleep?\n")
    await create(client, "In the shed.")
    await create_alone(client, clock, f"Wombat. {FILLER} Where does the wombat sleep?")
    await create(client, "In the barn.")

    parts = {hit["title"]: hit["score_breakdown"]["lexical"] for hit in await search(client, "wombat sleep")}
    assert parts["In the shed."] > parts["In the barn."] > 0


async def test_context_is_limited_to_the_session_namespace_and_half_hour(
    mcp_server: McpServer, era: str, clock: Clock
) -> None:
    async with connected(mcp_server, mode=era) as one, connected(mcp_server, mode=era) as two:
        await create(one, "Where does the wombat sleep?")
        await create(two, "another session")
        await create(one, "another namespace", namespace="elsewhere")
        clock.now += timedelta(minutes=31)
        await create(one, "long after")

        assert await found(one, "wombat") == ["Where does the wombat sleep?"]


async def test_context_follows_changes_of_the_note_before(client: Client) -> None:
    question = await create(client, "Where does the wombat sleep?")
    await create(client, "In the shed.")

    await update(client, question, content="Where does the quokka sleep?")
    assert await found(client, "wombat") == []
    assert await found(client, "quokka") == ["Where does the quokka sleep?", "In the shed."]
    await delete(client, question)
    assert await found(client, "quokka") == []
    await update(client, question, remove_tags=["archived"])
    assert "Where does the quokka sleep?" in await found(client, "quokka")
    await delete(client, question, soft=False)
    assert await found(client, "quokka") == []


async def test_deleting_a_note_connects_the_notes_around_it(client: Client) -> None:
    await create(client, "Where does the wombat sleep?")
    between = await create(client, "Let me see.")
    await create(client, "In the shed.")
    assert "In the shed." not in await found(client, "wombat")

    await delete(client, between, soft=False)
    assert await found(client, "wombat") == ["Where does the wombat sleep?", "In the shed."]


async def test_an_expression_does_not_match_the_context(client: Client) -> None:
    await create(client, "a pear")
    await create(client, "an apple")

    assert await found(client, "apple NOT pear") == ["an apple"]
    answer = await call(client, "memory_search", query="apple AND pear")
    assert {note["title"] for note in answer["memories"]} == {"an apple", "a pear"}
    assert answer["notice"] == "Nothing matches this FTS5 expression as a whole; these match some of its words."
    assert "notice" not in await call(client, "memory_search", query="apple NOT pear")
    assert (await call(client, "memory_search", query="apple AND pear", offset=2))["memories"] == []


async def test_a_phrase_in_the_note_before_counts_no_more_than_its_words(client: Client) -> None:
    await create(client, "a green pear")
    await create(client, "an apple")

    hits = await search(client, '"green pear"')
    assert hits[0]["title"] == "a green pear"
    assert [hit["title"] for hit in hits if hit["score_breakdown"]["lexical"] > 0.85 * 0.6 + 0.10] == ["a green pear"]


# What is superseded


async def test_a_superseded_note_comes_after_its_successor_and_says_so(client: Client, clock: Clock) -> None:
    old = await create_alone(client, clock, "The wombat sleeps in the shed.", importance=1)
    new = await create_alone(
        client, clock, "The wombat moved to the barn, far away.", importance=0, supersedes=[old["id"]]
    )

    hits = await search(client, "where does the wombat sleep in the shed")
    assert [hit["id"] for hit in hits] == [new["id"], old["id"]]
    assert hits[1]["superseded_by"] == new["id"]
    assert "superseded_by" not in hits[0]
    assert (await get(client, old))["superseded_by"] == new["id"]
    assert (await links(client, new))["outgoing"] == [old["id"]]
    assert (await get(client, old))["version"] == 1


async def test_a_successor_is_added_to_the_hits(client: Client, clock: Clock) -> None:
    old = await create_alone(client, clock, "The wombat sleeps in the shed.")
    await create_alone(client, clock, "A wombat is a marsupial. The shed is old.")
    new = await create_alone(client, clock, "It moved.", supersedes=[old["id"]], namespace="n", tags=["t"])

    assert (await found(client, "wombat sleeps shed"))[:2] == ["It moved.", "The wombat sleeps in the shed."]
    [first] = await search(client, "wombat sleeps shed", limit=1)
    assert first["id"] == new["id"]
    assert first["score_breakdown"]["lexical"] == 0
    assert "It moved." not in await found(client, "wombat sleeps", namespace="default")
    assert await found(client, "wombat sleeps", tags=["t"]) == []


async def test_each_note_of_a_chain_comes_after_the_one_that_replaces_it(client: Client, clock: Clock) -> None:
    first = await create_alone(client, clock, "wombat plan", importance=1)
    second = await create_alone(client, clock, "wombat plan, the second", importance=0.5, supersedes=[first["id"]])
    third = await create_alone(client, clock, "wombat, at last", importance=0, supersedes=[second["id"]])

    hits = await search(client, "wombat plan")
    assert [hit["id"] for hit in hits] == [third["id"], second["id"], first["id"]]
    assert [hit.get("superseded_by") for hit in hits] == [None, third["id"], second["id"]]


async def test_a_successor_that_expired_does_not_hide_the_one_before_it(client: Client, clock: Clock) -> None:
    first = await create_alone(client, clock, "wombat plan")
    second = await create_alone(client, clock, "version two", supersedes=[first["id"]])
    await create_alone(client, clock, "for a while", supersedes=[second["id"]], expires_at="2031-01-01")
    clock.now = clock.now.replace(year=2032)

    assert await found(client, "wombat") == ["version two", "wombat plan"]


async def test_superseding_may_come_later_and_adds_up(client: Client) -> None:
    one, two, new = await create(client, "one"), await create(client, "two"), await create(client, "new")

    await update(client, new, supersedes=[one["id"]])
    await update(client, new, supersedes=[two["id"], two["id"]])
    assert (await get(client, one))["superseded_by"] == (await get(client, two))["superseded_by"] == new["id"]
    assert sorted((await links(client, new))["outgoing"]) == sorted([one["id"], two["id"]])


async def test_superseding_has_no_cycles(client: Client) -> None:
    first = await create(client, "first")
    second = await create(client, "second", supersedes=[first["id"]])
    third = await create(client, "third", supersedes=[second["id"]])

    for older, newer in ((first, first), (third, first), (second, first)):
        refused = await refusal(client, "memory_update", id=newer["id"], supersedes=[older["id"]], folder="changed")
        assert (refused["error"], refused["data"]) == ("invalid", {"field": "supersedes"})
    assert (await get(client, first))["folder"] == ""


async def test_a_missing_note_cannot_be_superseded(client: Client) -> None:
    refused = await refusal(client, "memory_create", content="new", supersedes=["unknown"])

    assert refused["error"] == "not_found"
    assert await found(client, namespace="default") == []


async def test_unlinking_ends_superseding(client: Client, clock: Clock) -> None:
    old = await create_alone(client, clock, "The wombat sleeps.", importance=1)
    new = await create_alone(client, clock, "It moved.", supersedes=[old["id"]])

    answer = await call(client, "memory_unlink", source_id=new["id"], target_id=old["id"])
    assert answer == {"unlinked": 1}
    assert (await get(client, old))["superseded_by"] is None
    [hit] = await search(client, "wombat")
    assert "superseded_by" not in hit


@pytest.mark.parametrize("soft", [True, False])
async def test_a_successor_that_is_deleted_no_longer_replaces_anything(
    client: Client, clock: Clock, soft: bool
) -> None:
    old = await create_alone(client, clock, "The wombat sleeps.")
    new = await create_alone(client, clock, "It moved.", supersedes=[old["id"]])

    await delete(client, new, soft=soft)
    assert (await get(client, old))["superseded_by"] is None
    assert await found(client, "wombat") == ["The wombat sleeps."]
    if soft:
        await update(client, new, remove_tags=["archived"])
        assert (await get(client, old))["superseded_by"] == new["id"]


def test_the_formula_moves_the_weight_of_missing_parts() -> None:
    parts: dict[str, Any] = {"cosine": 0.8, "lexical": 0.6, "importance": 0.5}
    assert score(parts) == round(0.55 * 0.8 + 0.35 * 0.6 + 0.10 * 0.5, 6)
    assert score(parts | {"cosine": None}) == round((0.35 * 0.6 + 0.10 * 0.5) / 0.45, 6)
