from typing import Any

import pytest
from mcp import Client

from tests.conftest import Clock
from tests.families.vault.calls import call, commit, found_keys, read, refusal

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("arguments", [{"scope": "vault"}, {"scope": "all"}, {"scope": "vault", "tags": []}])
async def test_a_bulk_prune_of_the_vault_is_refused_in_the_specs_words(
    client: Client, arguments: dict[str, Any]
) -> None:
    await commit(client, "k")
    refused = await refusal(client, "prune_memory", **arguments)

    assert refused.error.code == -32602
    assert refused.error.message == "Bulk vault prune requires at least one filter."
    assert refused.error.data == {"error": "invalid"}
    assert len(await read(client, "memory://vault")) == 1


async def test_a_session_is_cleared_without_a_filter(client: Client) -> None:
    await commit(client, "v")
    for key in "abc":
        await commit(client, key, "x", "session")

    assert await call(client, "prune_memory", scope="session") == {"pruned_count": 3}
    assert await found_keys(client, "x something") == ["v"]


@pytest.mark.parametrize(
    ("filters", "gone"),
    [
        ({"key": "new"}, {"new"}),
        ({"key": "missing"}, set()),
        ({"tags": ["t"]}, {"old", "new"}),
        ({"tags": ["t", "u"]}, {"new"}),
        ({"older_than": "2030-01-01T13:00:00Z"}, {"old", "plain"}),
        ({"older_than": "2030-01-01T13:00:00"}, {"old", "plain"}),
        ({"older_than": "2030-01-01T14:30:00+01:00"}, {"old", "plain"}),
        ({"older_than": "2030-01-01T13:00:00Z", "tags": ["t"]}, {"old"}),
        ({"older_than": "2030-01-01T12:00:00Z"}, set()),
        ({"older_than": "2031-01-01"}, {"old", "plain", "new"}),
    ],
)
async def test_filters_combine(client: Client, clock: Clock, filters: dict[str, Any], gone: set[str]) -> None:
    await commit(client, "old", tags=["t"])
    await commit(client, "plain")
    clock.now = clock.now.replace(hour=14)
    await commit(client, "new", tags=["t", "u"])

    assert await call(client, "prune_memory", scope="vault", **filters) == {"pruned_count": len(gone)}
    left = {memory["key"] for memory in await read(client, "memory://vault")}
    assert left == {"old", "plain", "new"} - gone
    assert set(await found_keys(client, "something")) == left


async def test_all_reaches_both_scopes(client: Client) -> None:
    await commit(client, "k")
    await commit(client, "k", "x", "session")

    assert await call(client, "prune_memory", scope="all", key="k") == {"pruned_count": 2}


@pytest.mark.parametrize("text", ["yesterday", "", "2030-13-01", "1e9", "9999-12-31T23:59:59-23:00"])
async def test_a_time_that_is_none_is_refused(client: Client, text: str) -> None:
    await commit(client, "k")
    refused = await refusal(client, "prune_memory", scope="vault", older_than=text)

    assert refused.error.data == {"error": "invalid", "field": "older_than"}
    assert len(await read(client, "memory://vault")) == 1
