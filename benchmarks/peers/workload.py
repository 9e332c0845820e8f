"""The same work for each server: starts, writes, searches, two clients at once, and an end by SIGKILL."""

import json
import re
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from benchmarks.peers import processes
from benchmarks.peers.adapters import LIMIT, fill
from benchmarks.peers.connection import CallFailed, Connection, connect, plain
from benchmarks.peers.facts import Fact, Form, facts, sample
from benchmarks.peers.installation import Environment, Installed, home_for
from benchmarks.peers.results import Kept, Result, Searches, Spread, Writes
from memory_mcp.text import tokens

PARTS = 5  # of the writes, and of the searches of each form: each has a median of its own
WRITES_PER_CLIENT = 100
IN_FLIGHT = 10
KILL_AFTER = 100  # acknowledged writes
MAX_WRITE_S = 240.0
MAX_REFUSED_AT_FIRST = 5  # then a server does not work


@dataclass(frozen=True)
class Run:
    """How much is measured, and where."""

    scratch: Path
    is_offline: bool = False
    writes: int = 1_000
    searches: int = 200
    starts: int = 5


async def measure(environment: Environment, run: Run, result: Result) -> None:
    """Fill in the result. Raises CallFailed if the server does not work."""
    with home_for(environment, run.scratch, is_offline=run.is_offline) as installed:
        await _measure_starts(installed, run, result)
        _check_model(installed)
    with home_for(environment, run.scratch, is_offline=run.is_offline) as installed:
        await _measure_calls(installed, run, result)
    with home_for(environment, run.scratch, is_offline=run.is_offline) as installed:
        await _measure_two_clients(installed, result)
    with home_for(environment, run.scratch, is_offline=run.is_offline) as installed:
        result.killed = await _kill_while_writing(installed)


async def _measure_starts(installed: Installed, run: Run, result: Result) -> None:
    """From the start of the process to the first answers. No process of the server runs before."""
    lists, answers = [], []
    for number in range(run.starts + 1):
        async with connect(installed) as connection:
            if number == 0:  # it creates its files
                await set_up(connection)
                result.tools, result.tools_tokens = len(connection.tools), _tool_tokens(connection.tools)
            else:
                answer = await connection.call(fill(installed.adapter.search, query="Falcongate"))
                lists.append(connection.start_s)
                answers.append(connection.start_s + answer.seconds)
        processes.kill(installed.mark)
    result.start_s, result.first_answer_s = Spread.of(lists), Spread.of(answers)


def _check_model(installed: Installed) -> None:
    """Raises CallFailed if the server works without the model that it recommends: figures of that say nothing."""
    pattern = installed.adapter.missing_model
    if pattern and re.search(pattern, installed.log.read_text(encoding="utf-8", errors="replace")):
        raise CallFailed("It could not download its model, and finds nothing without it.")


def _tool_tokens(tools: list[dict[str, Any]]) -> int:
    """An estimate, of what a model reads of them."""
    read = [{name: tool.get(name) for name in ("name", "description", "inputSchema")} for tool in tools]
    return tokens.estimate(json.dumps(read, ensure_ascii=False))


async def set_up(connection: Connection) -> None:
    for request in connection.adapter.setup:
        await connection.call(request)


async def _measure_calls(installed: Installed, run: Run, result: Result) -> None:
    async with connect(installed) as connection:
        await set_up(connection)
        written, result.writes = await write_all(installed, connection, facts(run.writes))
        chosen = sample([fact for fact in facts(run.writes) if fact.key in written], run.searches)
        for form in Form:
            result.searches[form] = await _search_all(installed, connection, chosen, written, form)
        result.memory_bytes = processes.memory_bytes(processes.pids(installed.mark))
    await anyio.to_thread.run_sync(processes.wait_until_idle, installed.mark)
    result.disk_bytes = installed.disk_bytes()


async def write_all(
    installed: Installed, connection: Connection, all_facts: list[Fact], max_write_s: float = MAX_WRITE_S
) -> tuple[dict[str, str], Writes]:
    """One after the other, as long as there is time. The ids by key of what was acknowledged. Raises CallFailed if
    nothing is accepted."""
    ids: dict[str, str] = {}
    seconds: list[float] = []
    cpu, deadline = processes.cpu_s(processes.pids(installed.mark)), time.monotonic() + max_write_s
    sent = 0
    for fact in all_facts:
        if time.monotonic() > deadline:
            break
        sent += 1
        try:
            id_, taken = await _write(connection, fact)
        except CallFailed:
            if not ids and sent == MAX_REFUSED_AT_FIRST:
                raise
            continue
        ids[fact.key] = id_
        seconds.append(taken)
    await anyio.to_thread.run_sync(processes.wait_until_idle, installed.mark)
    cpu = processes.cpu_s(processes.pids(installed.mark)) - cpu
    return ids, Writes(len(ids), sent - len(ids), _medians(seconds), cpu / len(ids))


async def _write(connection: Connection, fact: Fact) -> tuple[str, float]:
    """The id, and the seconds. Raises CallFailed."""
    answer = await connection.call(fill(connection.adapter.write, key=fact.key, kind=fact.kind, text=fact.text))
    return connection.adapter.id_of(fact.key, answer.text), answer.seconds


def _medians(seconds: list[float]) -> Spread:
    """The median of all, between the least and the highest median of a part."""
    length = max(1, len(seconds) // PARTS)
    parts = [seconds[first : first + length] for first in range(0, len(seconds) - length + 1, length)]
    return Spread.around(statistics.median(seconds), [statistics.median(part) for part in parts])


async def _search_all(
    installed: Installed, connection: Connection, chosen: list[Fact], ids: dict[str, str], form: Form
) -> Searches:
    hits, seconds = 0, []
    cpu = processes.cpu_s(processes.pids(installed.mark))
    for fact in chosen:
        try:
            answer = await connection.call(fill(installed.adapter.search, query=fact.queries[form]))
        except CallFailed:
            continue
        seconds.append(answer.seconds)
        found = installed.adapter.ids_in(answer.text)[:LIMIT]
        hits += ids[fact.key] in found or plain(fact.text) in plain(answer.text)
    if not seconds:
        raise CallFailed(f"No search by {form} was answered.")
    cpu = processes.cpu_s(processes.pids(installed.mark)) - cpu
    return Searches(hits / len(chosen), _medians(seconds), cpu / len(chosen))


async def _measure_two_clients(installed: Installed, result: Result) -> None:
    """Two clients, each with a server that it starts, write to the same store at once."""
    ids: dict[str, str] = {}
    all_facts, problem = facts(2 * WRITES_PER_CLIENT), ""
    async with connect(installed) as first:
        await set_up(first)
        try:
            async with connect(installed) as second:
                result.second_client_s = second.start_s
                async with anyio.create_task_group() as group:
                    group.start_soon(write_at_once, first, all_facts[::2], ids)
                    group.start_soon(write_at_once, second, all_facts[1::2], ids)
        except CallFailed as exc:
            problem = f"the second client got no server: {exc}"
            await write_at_once(first, all_facts[::2], ids)
    result.two_clients = await count_kept(installed, all_facts, ids, problem)


async def write_at_once(
    connection: Connection,
    all_facts: list[Fact],
    ids: dict[str, str],
    in_flight: int = IN_FLIGHT,
    after_each: Callable[[], None] = lambda: None,
) -> None:
    """Puts the ids of those that are acknowledged into `ids`."""
    waiting: Iterator[Fact] = iter(all_facts)

    async def write() -> None:
        for fact in waiting:
            try:
                ids[fact.key], _ = await _write(connection, fact)
            except CallFailed:
                continue
            after_each()

    async with anyio.create_task_group() as group:
        for _ in range(in_flight):
            group.start_soon(write)


async def _kill_while_writing(installed: Installed) -> Kept:
    """SIGKILL to every process of the server once some writes are acknowledged, with others in flight."""
    ids: dict[str, str] = {}
    all_facts = facts(2 * KILL_AFTER)
    async with connect(installed) as connection:
        await set_up(connection)
        waiting: Iterator[Fact] = iter(all_facts)

        async def write() -> None:
            for fact in waiting:
                try:
                    ids[fact.key], _ = await _write(connection, fact)
                except CallFailed:
                    return
                if len(ids) == KILL_AFTER:
                    processes.kill(installed.mark)

        async with anyio.create_task_group() as group:
            for _ in range(IN_FLIGHT):
                group.start_soon(write)
    return await count_kept(installed, all_facts, ids)


async def count_kept(installed: Installed, all_facts: list[Fact], ids: dict[str, str], problem: str = "") -> Kept:
    """How many of the acknowledged writes a server that starts afterwards shows."""
    processes.kill(installed.mark)
    kept = 0
    try:
        async with connect(installed) as connection:
            for fact in (fact for fact in all_facts if fact.key in ids):
                kept += await _is_kept(connection, fact, ids[fact.key])
    except CallFailed as exc:
        problem = problem or f"it did not start again: {exc}"
    return Kept(len(all_facts), len(ids), kept, problem)


async def _is_kept(connection: Connection, fact: Fact, id_: str) -> bool:
    try:
        answer = await connection.call(
            fill(connection.adapter.read, key=fact.key, id=id_, text=fact.text, query=fact.text)
        )
    except CallFailed:
        return False
    return plain(fact.text) in plain(answer.text)
