"""Which session wrote a memory: what it wrote just before, in any family, helps to find it."""

from datetime import timedelta
from typing import Any

import pytest
from mcp import Client

from tests.conftest import Clock
from tests.families.notes.calls import call
from tests.families.recall.calls import recall, refs
from tests.postgres import database_url as database_url

pytestmark = pytest.mark.anyio

QUESTION = "Which harbour did Maria paint, and when?"
ANSWER = "It was the old harbour."


@pytest.fixture
def options() -> dict[str, Any]:
    return {"durability": "normal", "families": "vault,notes,graph,portals,recall"}


class Agent:
    """Writes in turns, each a second after the last."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock

    async def in_session(self, name: str) -> None:
        await call(self._client, "set_session_id", session_id=name)

    async def in_vault(self, key: str, content: str) -> str:
        await self._call("commit_memory", scope="vault", key=key, content=content)
        return f"memory://vault/{key}"

    async def in_graph(self, name: str, content: str) -> str:
        entity = {"name": name, "entity_type": "turn", "observations": [content]}
        await self._call("create_entities", project="talk", entities=[entity])
        return f"graph:talk/{name}"

    async def in_notes(self, content: str) -> str:
        return f"memory://note/{(await self._call('memory_create', content=content))['id']}"

    async def in_portal(self, table: str, content: str) -> str:
        row = {"text": content, "at": (self._clock.now + timedelta(seconds=1)).isoformat()}
        await self._call("portal_write", portalUri="mem://talk/turns", table=table, data=[row])
        return f"mem://talk/turns/{table}"

    async def observe(self, name: str, content: str) -> None:
        observation = {"entity_name": name, "contents": [content]}
        await self._call("add_observations", project="talk", observations=[observation])

    async def _call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        self._clock.now += timedelta(seconds=1)
        return await call(self._client, tool, **arguments)


@pytest.fixture
async def agent(client: Client, clock: Clock) -> Agent:
    await call(client, "create_project", name="talk")
    return Agent(client, clock)


@pytest.mark.parametrize("first", ["question", "stranger"])
async def test_of_two_equal_texts_the_one_after_the_question_is_found_first(
    client: Client, agent: Agent, first: str
) -> None:
    async def ask_and_answer() -> str:
        await agent.in_session("talk")
        await agent.in_vault("question", QUESTION)
        return await agent.in_graph("answer", ANSWER)

    async def answer_alone() -> str:
        await agent.in_session("elsewhere")
        return await agent.in_graph("stranger", ANSWER)

    if first == "question":
        answer, stranger = await ask_and_answer(), await answer_alone()
    else:
        stranger, answer = await answer_alone(), await ask_and_answer()
    assert await refs(client, "harbour Maria paint") == ["memory://vault/question", answer, stranger]


async def test_a_note_is_the_context_of_a_text_in_the_vault_and_the_other_way_round(
    client: Client, agent: Agent
) -> None:
    await agent.in_session("talk")
    await agent.in_notes(QUESTION)
    after_note = await agent.in_vault("after-note", ANSWER)
    await agent.in_vault("between", "Anna has a cat.")
    await agent.in_vault("question", QUESTION)
    after_vault = await agent.in_notes(ANSWER)
    await agent.in_session("elsewhere")
    elsewhere = {await agent.in_notes(ANSWER), await agent.in_vault("alone", ANSWER)}
    found = await refs(client, "harbour Maria paint")
    assert {*found[2:4]} == {after_note, after_vault}
    assert {*found[4:]} == elsewhere


@pytest.mark.parametrize("table", ["one", "two"])
async def test_a_row_has_the_session_of_the_write_that_was_recorded_just_after_its_time(
    client: Client, agent: Agent, table: str
) -> None:
    other = "two" if table == "one" else "one"
    await agent.in_session("elsewhere")
    stranger = await agent.in_portal(other, ANSWER)
    await agent.in_session("talk")
    await agent.in_vault("question", QUESTION)
    answer = await agent.in_portal(table, ANSWER)
    assert await refs(client, "harbour Maria paint") == ["memory://vault/question", answer, stranger]


async def test_the_session_that_wrote_a_text_last_counts(client: Client, agent: Agent) -> None:
    await agent.in_session("elsewhere")
    for name in ("one", "two"):
        await agent.in_graph(name, "Nothing of it.")
    await agent.in_session("talk")
    await agent.in_vault("question", QUESTION)
    await agent.observe("one", ANSWER)
    await agent.in_session("elsewhere")
    await agent.observe("two", ANSWER)
    assert await refs(client, "harbour Maria paint") == ["memory://vault/question", "graph:talk/one", "graph:talk/two"]


async def test_answers_do_not_name_sessions(client: Client, agent: Agent) -> None:
    await agent.in_session("a-secret-name")
    await agent.in_notes(QUESTION)
    await agent.in_vault("question", QUESTION)
    assert "a-secret-name" not in str(await recall(client, "harbour"))
    assert "a-secret-name" not in str(await call(client, "memory_search", query="harbour"))
