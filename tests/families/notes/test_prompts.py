"""The three prompts and what completes their arguments."""

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import PromptReference, ResourceTemplateReference

from memory_mcp.app import App
from tests.families.notes.calls import create, delete, write

pytestmark = pytest.mark.anyio


async def written(client: Client, name: str, **given: str) -> str:
    answer = await client.get_prompt(name, given)
    [message] = answer.messages
    assert message.role == "user"
    return str(message.content.text)  # type: ignore[union-attr]  # it is a text


async def completed(client: Client, reference: str, argument: str, value: str) -> list[str]:
    """Of a prompt's argument, or of a template's if the reference is an address."""
    ref: PromptReference | ResourceTemplateReference = (
        ResourceTemplateReference(type="ref/resource", uri=reference)
        if "://" in reference
        else PromptReference(type="ref/prompt", name=reference)
    )
    return (await client.complete(ref, {"name": argument, "value": value})).completion.values


async def test_three_prompts_are_offered(client: Client) -> None:
    prompts = (await client.list_prompts()).prompts

    assert {
        prompt.name: [(argument.name, argument.required) for argument in prompt.arguments or []] for prompt in prompts
    } == {
        "recall": [("topic", True)],
        "distill": [("memory_ids", False), ("project", False), ("days", False), ("conversation", False)],
        "organize": [("namespace", False)],
    }
    assert all(prompt.title and prompt.description for prompt in prompts)


async def test_recall_requests_a_search_and_citations(client: Client) -> None:
    text = await written(client, "recall", topic=' the "backup"\nplan ')

    assert "memory_search" in text
    assert "the 'backup' plan" in text
    assert "cite" in text


async def test_distill_names_every_note_and_requests_links_back(client: Client) -> None:
    text = await written(client, "distill", memory_ids="id-1, id-2\nid-3,,")

    assert [f'- "{id_}"' in text for id_ in ("id-1", "id-2", "id-3")] == [True] * 3
    assert text.count('- "') == 3
    for tool in ("memory_get", "memory_create", "memory_link"):
        assert tool in text


@pytest.mark.parametrize(
    "ids",
    [
        '["id-1", "id-2", "id-3"]',
        ' [\n"id-1","id-2","id-3"] ',
        "id-1 id-2 id-3",
        "id-1,id-2  id-3\n",
        "id-1, id-2,id-3",
    ],
)
async def test_distill_accepts_ids_in_any_list_form(client: Client, ids: str) -> None:
    assert await written(client, "distill", memory_ids=ids) == await written(
        client, "distill", memory_ids="id-1,id-2,id-3"
    )


async def test_organize_covers_one_or_all_namespaces(client: Client) -> None:
    everywhere, work = await written(client, "organize"), await written(client, "organize", namespace="work")

    assert "memory_list_tags" in everywhere
    assert "namespace" not in everywhere
    assert 'memory_list_tags with the namespace "work"' in work


@pytest.mark.parametrize(
    ("name", "given", "field"),
    [
        ("recall", {}, "topic"),
        ("recall", {"topic": "  "}, "topic"),
        ("distill", {"days": "0"}, "days"),
        ("distill", {"days": "1.5"}, "days"),
        ("distill", {"memory_ids": " , "}, "memory_ids"),
        ("distill", {"memory_ids": "[]"}, "memory_ids"),
        ("distill", {"memory_ids": '["id-1",'}, "memory_ids"),
        ("distill", {"memory_ids": "[1]"}, "memory_ids"),
        ("organize", {"colour": "red"}, "colour"),
    ],
)
async def test_a_missing_or_unknown_argument_is_named(
    client: Client, name: str, given: dict[str, str], field: str
) -> None:
    with pytest.raises(MCPError) as caught:
        await client.get_prompt(name, given)

    assert caught.value.error.code == -32602
    assert caught.value.error.data == {"error": "invalid", "field": field}


async def test_arguments_are_completed_from_existing_notes(client: Client) -> None:
    one = await create(client, "Backup plan", tags=["backups", "Ops"], namespace="work")
    two = await create(client, "The old backup plan", namespace="World")
    await delete(client, await create(client, "Backup archived", tags=["backed"], namespace="worn"))

    assert await completed(client, "organize", "namespace", "WO") == ["World", "work"]
    assert await completed(client, "organize", "namespace", "x") == []
    assert await completed(client, "memory://namespace/{ns}", "ns", "wor") == ["World", "work"]
    assert await completed(client, "memory://tag/{tag}", "tag", "o") == ["Ops"]
    assert await completed(client, "memory://tag/{tag}", "tag", "back") == ["backups"]
    assert await completed(client, "recall", "topic", "backup") == ["Backup plan", "The old backup plan", "backups"]
    assert set(await completed(client, "recall", "topic", "")) >= {"Backup plan", "The old backup plan"}
    assert set(await completed(client, "memory://note/{id}", "id", "")) == {one["id"], two["id"]}
    assert await completed(client, "memory://note/{id}", "id", one["id"][:13]) == [one["id"]]
    assert await completed(client, "memory://note/{id}", "id", "the old") == [two["id"]]
    assert await completed(client, "distill", "memory_ids", two["id"][:13].upper()) == [two["id"]]
    for before in (f"{one['id']} ", f'["{one["id"]}", "', '["'):
        assert await completed(client, "distill", "memory_ids", before + two["id"][:13]) == [before + two["id"]]
    assert await completed(client, "distill", "memory_ids", f"{one['id']},{two['id'][:13]}") == [
        f"{one['id']},{two['id']}"
    ]


async def test_completions_have_no_duplicates(client: Client) -> None:
    await create(client, "deploy", tags=["deploy"])

    assert await completed(client, "recall", "topic", "dep") == ["deploy"]


async def test_completions_are_limited_to_a_hundred(client: Client, app: App) -> None:
    for number in range(101):
        write(app, "text", tags=(f"tag{number}",))

    reference = ResourceTemplateReference(type="ref/resource", uri="memory://tag/{tag}")
    answer = (await client.complete(reference, {"name": "tag", "value": "tag"})).completion
    assert len(answer.values) == 100
    assert answer.has_more is True


async def test_unknown_text_has_no_completions(client: Client) -> None:
    await create(client)

    assert await completed(client, "recall", "colour", "") == []
    assert await completed(client, "no_such_prompt", "topic", "") == []
