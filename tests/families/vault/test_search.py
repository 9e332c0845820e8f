import pytest
from mcp import Client

from memory_mcp.app import App
from memory_mcp.caller import LOCAL_USER
from memory_mcp.engines.sqlite import texts
from memory_mcp.families.vault.storage import VaultWordIndex
from tests.conftest import Clock
from tests.families.vault.calls import call, commit, found_keys, refusal, search

pytestmark = pytest.mark.anyio


async def test_a_natural_question_finds_its_answer_first(client: Client) -> None:
    await commit(client, "backup_policy", "We decided on nightly backups to the second site.")
    await commit(client, "lunch", "We decided to have lunch at noon.")
    await commit(client, "editor", "The user likes vim.")

    assert (await found_keys(client, "What did we decide about backups?"))[0] == "backup_policy"


async def test_a_word_held_by_too_many_to_remember_counts_the_same(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    for scope in ("vault", "session"):
        await commit(client, "both", "apple pear", scope=scope)
        await commit(client, "apple", "an apple a day", scope=scope)
        await commit(client, "pear", "a pear", scope=scope)
    remembered = await search(client, "apple pear plum")

    monkeypatch.setattr(texts, "MAX_ROWS_FETCHED", 0)

    assert await search(client, "apple pear plum") == remembered


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("apple AND pear", {"both"}),
        ("apple NOT pear", {"apple"}),
        ("apple OR pear", {"both", "apple", "pear"}),
        ('"apple pear"', {"both"}),
        ('"pear apple"', set()),
        ("appl*", {"both", "apple"}),
        ("key:pear", {"pear"}),
        ("content : (apple AND pear)", {"both"}),
        ("tags:fruit", {"pear"}),
        ("NEAR(apple pear, 3)", {"both"}),
        ("apple pear", {"both", "apple", "pear"}),
    ],
)
async def test_fts5_syntax_means_what_it_says(client: Client, query: str, expected: set[str]) -> None:
    await commit(client, "both", "apple pear")
    await commit(client, "apple", "an apple a day")
    await commit(client, "pear", "a pear", tags=["fruit"])

    assert set(await found_keys(client, query)) == expected


async def test_operators_that_match_nothing_fall_back_to_plain_words_and_say_so(client: Client) -> None:
    await commit(client, "alice", "Alice likes green tea")
    await commit(client, "bob", "Bob drinks coffee")
    answer = await call(client, "search_memories", query="Alice AND espresso NOT coffee")
    assert [hit["key"] for hit in answer["results"]] == ["alice"]
    assert "some of its words" in answer["notice"]
    whole = await call(client, "search_memories", query="Alice AND tea")
    assert [hit["key"] for hit in whole["results"]] == ["alice"]
    assert "notice" not in whole
    phrase = await call(client, "search_memories", query='"tea green"')
    assert phrase["results"] == []


@pytest.mark.parametrize(
    "query",
    [
        "what's new?",
        "c++",
        '"',
        "AND",
        "NOT",
        "foo:bar baz",
        "(((",
        "*",
        "a AND",
        "NEAR(",
        '"open',
        "🎉",
        "-",
        "{x}: y",
        "\x00",
    ],
)
async def test_invalid_fts5_syntax_is_never_an_error(client: Client, query: str) -> None:
    await commit(client, "k", "what is new in c++ 🎉 foo")

    await search(client, query)


@pytest.mark.parametrize(
    ("content", "query"),
    [
        ("数据库备份策略", "备份"),
        ("数据库备份策略", "数"),
        ("数据库备份策略", "我们的备份策略是什么"),
        ("数据库备份策略", "备份 AND 策略"),
        ("データベースの設定", "設定"),
        ("데이터베이스 백업", "백업"),
        ("Crème brûlée at the café", "CREME BRULEE"),
        ("call getUserName() first", "user"),
        ("call getUserName() first", "get_user_name"),
        ("set max_retry_count", "retry"),
        ("set max_retry_count", "maxRetryCount"),
        ("see src/app.py:17", "app.py"),
        ("see src/app.py:17", "src/app.py:17"),
        ("the HTTPServer class", "server"),
        ("nightly backups", "backup"),
        ("ＦＵＬＬ width", "full"),
        ("party 🎉", "🎉"),
        ("हिन्दी में लिखा", "हिन्दी"),
    ],
)
async def test_text_is_found_by_its_words_in_every_script_and_case(client: Client, content: str, query: str) -> None:
    await commit(client, "wanted", content)
    await commit(client, "other", "nothing of the kind")

    assert (await found_keys(client, query))[:1] == ["wanted"]


@pytest.mark.parametrize("scope", ["vault", "session"])
async def test_a_query_equal_to_key_or_content_scores_one(client: Client, scope: str) -> None:
    await commit(client, "the", "a perfectly ordinary sentence", scope)
    await commit(client, "long", "a perfectly ordinary sentence with more to it", scope)

    for query in ("the", "a perfectly ordinary sentence"):
        hits = await search(client, query)
        assert hits[0]["key"] == "the"
        assert hits[0]["relevance"] == 1.0
        assert all(hit["relevance"] < 1 for hit in hits[1:])


async def test_a_single_memory_that_matches_has_a_relevance_worth_the_name(client: Client) -> None:
    await commit(client, "lang", "User prefers Python examples.")

    [hit] = await search(client, "which examples does the user prefer?")
    assert hit["relevance"] > 0.5


def test_the_vault_is_counted_once_for_a_search(app: App) -> None:
    """A count reads an index of all memories, and the search has made one before."""
    with app.opened["vault"].operations._tenants.database(LOCAL_USER).read() as tx:
        assert VaultWordIndex(tx, "vault", "s", (), 7).documents() == 7
        assert VaultWordIndex(tx, "vault", "s", ("t",), 7).documents() == 0


async def test_tags_filter_before_ranking_and_all_must_match(client: Client) -> None:
    await commit(client, "a", "deploy", tags=["ops", "prod"])
    await commit(client, "b", "deploy", tags=["ops"])

    answer = await call(client, "search_memories", query="deploy", tags=["ops", "prod", "ops"])
    assert [hit["key"] for hit in answer["results"]] == ["a"]
    assert answer["total_searched"] == 1
    assert await found_keys(client, "deploy", tags=["op"]) == []


async def test_an_empty_query_with_tags_lists_the_newest_first(client: Client, clock: Clock) -> None:
    for hour, (key, scope) in enumerate([("a", "vault"), ("b", "session"), ("c", "vault")]):
        clock.now = clock.now.replace(hour=hour)
        await commit(client, key, "x", scope, tags=["t"])
    clock.now = clock.now.replace(hour=5)
    await commit(client, "a", "y", tags=["t"])

    assert await found_keys(client, "", tags=["t"]) == ["a", "c", "b"]
    assert await found_keys(client, "  ", tags=["t"], limit=1) == ["a"]


async def test_an_empty_query_without_tags_is_refused(client: Client) -> None:
    refused = await refusal(client, "search_memories", query="")

    assert refused.error.code == -32602
    assert refused.error.data == {"error": "invalid", "field": "query"}


async def test_scope_limits_the_search_and_the_count(client: Client) -> None:
    await commit(client, "v", "shared word")
    await commit(client, "s", "shared word", "session")

    for scope, keys in (("vault", {"v"}), ("session", {"s"}), ("all", {"v", "s"})):
        answer = await call(client, "search_memories", query="shared", scope=scope)
        assert {hit["key"] for hit in answer["results"]} == keys
        assert answer["total_searched"] == len(keys)


@pytest.mark.parametrize("limit", [0, 501, "501", 2.5, True])
async def test_a_limit_out_of_bounds_is_refused(client: Client, limit: object) -> None:
    refused = await refusal(client, "search_memories", query="x", limit=limit)

    assert refused.error.data == {"error": "invalid", "field": "limit"}


async def test_a_whole_number_may_be_written_as_a_float(client: Client) -> None:
    await commit(client, "k", "word")
    assert await found_keys(client, "word", limit=10.0) == ["k"]


async def test_the_limit_is_kept_and_the_order_is_stable(client: Client) -> None:
    for number in range(30):
        await commit(client, f"k{number}", "same words here")

    first = await found_keys(client, "words", limit=20)
    assert len(first) == 20
    assert first == await found_keys(client, "words", limit=20)
    assert first[:5] == await found_keys(client, "words", limit=5)


async def test_the_blend_is_four_tenths_words_and_six_tenths_cosine(client: Client) -> None:
    await commit(client, "near", "alpha text", embedding=[1, 0, 0])
    await commit(client, "far", "alpha text", embedding=[0, 1, 0])
    await commit(client, "bare", "alpha text")
    words_only = {hit["key"]: hit["relevance"] for hit in await search(client, "alpha")}

    blended = {hit["key"]: hit["relevance"] for hit in await search(client, "alpha", query_embedding=[2, 0, 0])}

    assert blended["near"] == pytest.approx(0.4 * words_only["near"] + 0.6)
    assert blended["far"] == pytest.approx(0.4 * words_only["far"])
    assert blended["bare"] == words_only["bare"]


async def test_memories_that_only_the_vector_finds_are_in_the_running(client: Client) -> None:
    await commit(client, "meaning", "entirely different words", embedding=[1, 1, 0])
    await commit(client, "opposite", "nothing either", embedding=[-1, -1, 0])
    await commit(client, "tagged", "nothing at all", embedding=[1, 0.9, 0], tags=["t"])

    hits = await search(client, "alpha", query_embedding=[1, 1, 0])
    assert [hit["key"] for hit in hits] == ["meaning", "tagged"]
    assert hits[0]["relevance"] == pytest.approx(0.6)
    assert await found_keys(client, "alpha", query_embedding=[1, 1, 0], tags=["t"]) == ["tagged"]


async def test_vectors_follow_overwrites_and_prunes(client: Client) -> None:
    await commit(client, "a", "x", embedding=[1, 0, 0])
    await commit(client, "b", "x", embedding=[1, 0, 0])
    assert set(await found_keys(client, "q", query_embedding=[1, 0, 0])) == {"a", "b"}

    await commit(client, "a", "x", embedding=[0, 1, 0])
    await call(client, "prune_memory", scope="vault", key="b")
    await commit(client, "c", "x", embedding=[1, 0, 0])

    assert await found_keys(client, "q", query_embedding=[1, 0, 0]) == ["c"]


async def test_a_query_vector_of_the_wrong_length_is_refused_naming_d(client: Client) -> None:
    refused = await refusal(client, "search_memories", query="x", query_embedding=[1])

    assert "D = 3" in refused.error.message


async def test_an_answer_too_long_for_a_model_is_cut_between_memories_and_says_so(client: Client) -> None:
    for number in range(5):
        await commit(client, f"k{number}", f"word {number} " + "x" * 30_000)

    answer = await call(client, "search_memories", query="word")
    assert len(answer["results"]) == 2
    assert "3 more matched" in answer["truncated"]
    assert all(len(hit["content"]) > 30_000 for hit in answer["results"])
