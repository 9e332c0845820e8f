"""The same faults on other memory servers, next to ours: `make chaos-peers`.

Each server is killed again and again while a client writes, once with one call at a time and once with several. Then
several clients write at once, each with a server that it starts. A server that starts afterwards must show every
acknowledged write. It needs the package registries once; nothing of a peer is a reason to fail, only a write that ours
has lost.
"""

import argparse
import random
import tempfile
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import anyio
from tools.install_ways import Failed

from benchmarks.figures import introduction, load, print_table
from benchmarks.peers import processes
from benchmarks.peers.adapters import Adapter
from benchmarks.peers.connection import CallFailed, Connection, connect
from benchmarks.peers.facts import Fact, facts
from benchmarks.peers.installation import Environment, Installed, home_for, install
from benchmarks.peers.results import Kept
from benchmarks.peers.servers import OURS, PEERS
from benchmarks.peers.workload import IN_FLIGHT, count_kept, set_up, write_at_once

COMPARED = ("server-memory", "mcp-memory-service", "basic-memory")
KILLS = 20
MAX_WRITES_BEFORE_KILL = 30  # acknowledged
WRITES_PER_KILL = 40  # sent, at most
CLIENTS = 8
WRITES_PER_CLIENT = 25
SEED = 1


def main() -> None:
    options = _options()
    print(introduction())
    rows: list[tuple[str, ...]] = [("server", "fault", "sent", "acknowledged", "lost", "what happened")]
    lost_by_ours = 0
    with tempfile.TemporaryDirectory(prefix="chaos-peers-", dir=options.dir) as scratch:
        for adapter in (one for one in (*OURS, *PEERS) if one.name in options.servers):
            for fault, kept in _try(adapter, Path(scratch), options.kills):
                rows.append(_row(adapter.name, fault, kept))
                print(*rows[-1], sep="  ", flush=True)
                lost_by_ours += kept.lost if adapter in OURS else 0
    print_table("Chaos, next to peers", rows)
    print(load())
    if lost_by_ours:
        raise SystemExit(1)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make chaos-peers ARGS=", description=__doc__)
    parser.add_argument("--kills", type=int, default=KILLS)
    parser.add_argument("--dir", help="where the data goes")
    names = [one.name for one in (*OURS, *PEERS)]
    compared = [*(one.name for one in OURS), *COMPARED]
    parser.add_argument("servers", nargs="*", metavar="SERVER", default=compared, help=f"of {', '.join(names)}")
    options = parser.parse_args()
    if unknown := set(options.servers).difference(names):
        parser.error(f"no server is called {min(unknown)}")
    return options


def _row(name: str, fault: str, kept: Kept) -> tuple[str, ...]:
    return name, fault, str(kept.sent), str(kept.acknowledged), str(kept.lost), kept.problem[:120]


def _try(adapter: Adapter, scratch: Path, kills: int) -> Iterator[tuple[str, Kept]]:
    try:
        environment = install(adapter)
    except Failed as exc:
        yield "installing it", Kept(0, 0, 0, " ".join(str(exc).split()))
        return
    for in_flight, fault in ((1, "one call at a time"), (IN_FLIGHT, f"{IN_FLIGHT} calls at once")):
        yield f"{kills} times SIGKILL, {fault}", anyio.run(_kill, environment, scratch, kills, in_flight)
    yield f"{CLIENTS} clients, {IN_FLIGHT} calls at once each", anyio.run(_race, environment, scratch)


async def _kill(environment: Environment, scratch: Path, kills: int, in_flight: int) -> Kept:
    chance, all_facts = random.Random(SEED), facts(kills * WRITES_PER_KILL)
    ids: dict[str, str] = {}
    problem = ""
    with home_for(environment, scratch, is_offline=False) as installed:
        for number in range(kills):
            part = all_facts[number * WRITES_PER_KILL : (number + 1) * WRITES_PER_KILL]
            try:
                kill_after = chance.randint(1, MAX_WRITES_BEFORE_KILL)
                await _write_until_killed(installed, part, ids, in_flight, kill_after, is_first=not number)
            except CallFailed as exc:
                problem = f"kill {number + 1}: {exc}"
        return await count_kept(installed, all_facts, ids, problem)


async def _write_until_killed(
    installed: Installed, part: list[Fact], ids: dict[str, str], in_flight: int, kill_after: int, *, is_first: bool
) -> None:
    """Kill the server once so many writes are acknowledged, while others are under way. Raises CallFailed if the server
    does not start."""
    async with connect(installed) as connection:
        if is_first:
            await set_up(connection)
        last = len(ids) + kill_after

        def kill_if_due() -> None:
            if len(ids) == last:
                processes.kill(installed.mark)

        await write_at_once(connection, part, ids, in_flight, kill_if_due)
        processes.kill(installed.mark)


async def _race(environment: Environment, scratch: Path) -> Kept:
    all_facts, problem = facts(CLIENTS * WRITES_PER_CLIENT), ""
    ids: dict[str, str] = {}
    with home_for(environment, scratch, is_offline=False) as installed:
        async with AsyncExitStack() as stack:
            clients: list[Connection] = []
            for _ in range(CLIENTS):
                try:
                    clients.append(await stack.enter_async_context(connect(installed)))
                except CallFailed as exc:
                    problem = f"{len(clients)} of {CLIENTS} clients got a server: {exc}"
                    break
                if len(clients) == 1:
                    await set_up(clients[0])
            async with anyio.create_task_group() as group:
                for number, client in enumerate(clients):
                    group.start_soon(write_at_once, client, all_facts[number::CLIENTS], ids)
        return await count_kept(installed, all_facts, ids, problem)


if __name__ == "__main__":
    main()
