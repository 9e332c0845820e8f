"""LoCoMo through each server: is a turn that answers the question among ten hits, and is its text in the answer?

Every turn of the conversations is a memory of one store, without a filter. Adversarial questions are left out.
"""

import statistics

from benchmarks.peers.adapters import LIMIT, fill
from benchmarks.peers.connection import CallFailed, Connection, connect, plain
from benchmarks.peers.facts import Fact
from benchmarks.peers.installation import Environment, home_for
from benchmarks.peers.results import Recall
from benchmarks.peers.workload import Run, set_up, write_all
from benchmarks.recall import Conversation

ADVERSARIAL = "adversarial"
MAX_WRITE_S = 900.0


async def measure_recall(environment: Environment, run: Run, conversations: list[Conversation]) -> Recall:
    """Raises CallFailed if the server accepts nothing, answers nothing, or takes too long."""
    utterances = [fact for conversation in conversations for fact in _facts(conversation)]
    with home_for(environment, run.scratch, is_offline=run.is_offline) as installed:
        async with connect(installed) as connection:
            await set_up(connection)
            ids, writes = await write_all(installed, connection, utterances, MAX_WRITE_S)
            if writes.count + writes.refused < len(utterances):
                raise CallFailed(f"Only {writes.count} of {len(utterances)} turns were written in {MAX_WRITE_S:.0f} s.")
            return await _search(connection, conversations, ids, writes.refused)


def _facts(conversation: Conversation) -> list[Fact]:
    return [Fact(_key(conversation, one.id), "turn", one.text, {}) for one in conversation.utterances]


def _key(conversation: Conversation, utterance: str) -> str:
    return f"{conversation.name}-{utterance.replace(':', '-')}"


async def _search(
    connection: Connection, conversations: list[Conversation], ids: dict[str, str], refused: int
) -> Recall:
    by_id, by_text, seconds, characters = [], [], [], []
    for conversation in conversations:
        texts = {one.id: plain(one.text) for one in conversation.utterances}
        for question in conversation.questions:
            if question.category == ADVERSARIAL:
                continue
            try:
                answer = await connection.call(fill(connection.adapter.search, query=question.text))
            except CallFailed:
                by_id.append(False)
                by_text.append(False)
                continue
            found = set(connection.adapter.ids_in(answer.text)[:LIMIT])
            by_id.append(any(ids.get(_key(conversation, turn)) in found for turn in question.evidence))
            shown = plain(answer.text)
            by_text.append(any(texts[turn] in shown for turn in question.evidence))
            seconds.append(answer.seconds)
            characters.append(len(answer.text))
    if not seconds:
        raise CallFailed("No question was answered.")
    return Recall(
        questions=len(by_id),
        refused=refused,
        by_id=statistics.fmean(by_id) if connection.adapter.returned_id else None,
        by_text=statistics.fmean(by_text),
        p50_s=statistics.median(seconds),
        characters=statistics.median(characters),
    )
