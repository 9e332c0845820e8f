import math

import pytest
from mcp import Client

from memory_mcp.app import App
from memory_mcp.caller import ALL_SCOPES, LOCAL_USER, Caller
from memory_mcp.errors import Invalid
from memory_mcp.families.vault.model import NewMemory
from memory_mcp.services.sessions import Connection, Session
from tests.conftest import Clock
from tests.families.vault.calls import call, commit, found_keys, read, refusal

pytestmark = pytest.mark.anyio

NOON = "2030-01-01T12:00:00Z"
LATER = "2030-01-01T13:00:00Z"


async def test_a_committed_memory_is_read_back_as_the_spec_shows_it(client: Client) -> None:
    await commit(client, "user_preference_language", "User prefers Python.", tags=["preference", "coding"])

    assert await read(client, "memory://vault/user_preference_language") == {
        "key": "user_preference_language",
        "content": "User prefers Python.",
        "tags": ["preference", "coding"],
        "scope": "vault",
        "created_at": NOON,
        "updated_at": NOON,
    }


@pytest.mark.parametrize("scope", ["vault", "session"])
async def test_an_overwrite_keeps_id_and_creation_and_replaces_the_rest(
    client: Client, app: App, clock: Clock, scope: str
) -> None:
    await commit(client, "k", "old words", scope, tags=["a"])
    clock.now = clock.now.replace(hour=13)
    await commit(client, "k", "new text", scope, tags=["b"])

    uri = "memory://vault" if scope == "vault" else await own_session(client)
    [memory] = await read(client, uri)
    assert (memory["content"], memory["tags"]) == ("new text", ["b"])
    assert (memory["created_at"], memory["updated_at"]) == (NOON, LATER)
    assert await found_keys(client, "old") == []
    assert await found_keys(client, "text") == ["k"]
    with database(app).read() as tx:
        assert tx.all(f"SELECT id FROM {scope}_memories") == [(1,)]


async def test_the_full_text_indexes_stay_whole_through_overwrites(client: Client, app: App) -> None:
    for number in range(5):
        for scope in ("vault", "session"):
            await commit(client, "k", f"content {number}", scope)

    with database(app).write() as tx:
        for index in ("vault_fts", "session_fts", "vault_words", "session_words"):
            if tx.is_file:
                tx.all(f"INSERT INTO {index} ({index}, rank) VALUES ('integrity-check', 1)")
            else:
                assert tx.all(f"SELECT number FROM {index} WHERE words @@ '4'::tsquery") == [(1,)]


async def test_session_memories_belong_to_their_session(client: Client) -> None:
    await commit(client, "k", "for this session", "session")

    [memory] = await read(client, await own_session(client))
    assert (memory["key"], memory["scope"]) == ("k", "session")
    assert await read(client, "memory://vault") == []


async def test_text_is_kept_in_nfc(client: Client) -> None:
    await call(client, "commit_memory", scope="vault", key="cafe\u0301", content="re\u0301sume\u0301")

    memory = await read(client, "memory://vault/caf%C3%A9")
    assert memory == await read(client, "memory://vault/cafe%CC%81")
    assert (memory["key"], memory["content"]) == ("caf\u00e9", "r\u00e9sum\u00e9")


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"scope": "vault", "key": "k"}, "content"),
        ({"scope": "elsewhere", "key": "k", "content": "c"}, "scope"),
        ({"scope": "vault", "key": "", "content": "c"}, "key"),
        ({"scope": "vault", "key": "k" * 513, "content": "c"}, "key"),
        ({"scope": "vault", "key": "k", "content": 5}, "content"),
        ({"scope": "vault", "key": "k", "content": "c", "tags": 5}, "tags"),
        ({"scope": "vault", "key": "k", "content": "c", "tags": [1]}, "tags.0"),
        ({"scope": "vault", "key": "k", "content": "c", "colour": "red"}, "colour"),
    ],
)
async def test_arguments_that_do_not_fit_are_refused_naming_the_field(
    client: Client, arguments: dict[str, object], field: str
) -> None:
    refused = await refusal(client, "commit_memory", **arguments)

    assert refused.error.code == -32602
    assert refused.error.data == {"error": "invalid", "field": field}
    assert field in refused.error.message
    assert await read(client, "memory://vault") == []


async def test_a_field_over_a_mebibyte_is_too_large(client: Client) -> None:
    await commit(client, "fits", "x" * 1024 * 1024)
    refused = await refusal(client, "commit_memory", scope="vault", key="k", content="é" * (512 * 1024 + 1))

    assert refused.error.code == -32602
    assert refused.error.data["error"] == "too_large"
    assert refused.error.data["field"] == "content"


@pytest.mark.parametrize("vector", [[1.0, 2.0], [1.0] * 4, [1.0, 2.0, 1e39], []])
async def test_a_vector_that_does_not_fit_is_refused_naming_d(client: Client, vector: list[float]) -> None:
    refused = await refusal(client, "commit_memory", scope="vault", key="k", content="c", embedding=vector)

    assert refused.error.code == -32602
    assert refused.error.data["error"] == "invalid"
    assert "D = 3" in refused.error.message


async def test_a_vector_is_stored_as_little_endian_float32(client: Client, app: App) -> None:
    await commit(client, "k", embedding=[1, 0.5, -2])

    with database(app).read() as tx:
        [(blob,)] = tx.all("SELECT embedding FROM vault_memories")
    assert blob == b"\x00\x00\x80?\x00\x00\x00?\x00\x00\x00\xc0"


async def test_a_session_memory_takes_no_vector(client: Client) -> None:
    refused = await refusal(client, "commit_memory", scope="session", key="k", content="c", embedding=[1, 2, 3])

    assert refused.error.data == {"error": "invalid", "field": "embedding"}


async def test_new_content_without_a_vector_drops_the_former_one(client: Client, app: App) -> None:
    await commit(client, "same", "text", embedding=[1, 2, 3])
    await commit(client, "same", "text", tags=["t"])
    await commit(client, "other", "text", embedding=[1, 2, 3])
    await commit(client, "other", "new text")

    with database(app).read() as tx:
        assert tx.all("SELECT key, embedding IS NULL FROM vault_memories ORDER BY key") == [("other", 1), ("same", 0)]


async def own_session(client: Client) -> str:
    listed = (await client.list_resources()).resources
    return next(resource.uri for resource in listed if resource.uri.startswith("memory://session/"))


def database(app: App):  # type: ignore[no-untyped-def]  # direct access, for rows that no tool returns
    return app.vault._tenants.database(LOCAL_USER)


def test_nan_and_infinity_are_refused(app: App) -> None:
    caller = Caller(LOCAL_USER, ALL_SCOPES, frozenset({"vault"}))
    for bad in (math.nan, math.inf):
        memory = NewMemory("vault", "k", "c", embedding=(1.0, 2.0, bad))
        with pytest.raises(Invalid, match="D = 3"):
            app.vault.commit(caller, Session("s", Connection(LOCAL_USER, "s")), memory)
