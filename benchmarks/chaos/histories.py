"""Concurrent clients on one key, note, file, three entities and a table while their server is killed: linearizable?

A write changes the text and title of the note, all three entities, or adds three rows, so a read that shows a part of a
write is no snapshot: it has the value TORN, which nothing wrote.
"""

import random
import threading
import time
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.chaos.connections import ERAS, kill, prepare, shared_server_pids, stdio_client
from benchmarks.chaos.ledger import FAMILIES, PORTAL, Call, Ledger, Refused, Unsure
from benchmarks.linearizability import GrowingSet, Model, Operation, Register, is_linearizable
from benchmarks.soak_shared import background_servers

CLIENTS = 6
ROUNDS = 3
OPERATIONS = 200  # of each client in a round, over all objects
KILL_INTERVAL_S = 1.5
PARTS = ("a", "b", "c")  # of what one call writes together
TORN = "torn"


@dataclass(frozen=True)
class Subject:
    """One object, and the calls that write and read it."""

    name: str
    model: Model
    write: Callable[[str], tuple[str, dict[str, Any]]]
    read: tuple[str, dict[str, Any]]
    value: Callable[[dict[str, Any]], Any]  # of the answer to a read


@dataclass
class History:
    """Thread-safe."""

    operations: list[Operation] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def record(self, operation: Operation) -> None:
        with self._lock:
            self.operations.append(operation)


def subjects(note_id: str, round_: int) -> tuple[Subject, ...]:
    name = f"one-{round_}"
    return (
        Subject(
            "vault",
            Register("first"),
            lambda text: ("commit_memory", {"scope": "vault", "key": name, "content": text}),
            ("recall_open", {"ref": f"memory://vault/{name}"}),
            lambda answer: answer["content"],
        ),
        Subject(
            "notes",
            Register("first"),
            lambda text: ("memory_update", {"id": note_id, "content": text, "title": text}),
            ("memory_get", {"id": note_id}),
            lambda answer: _same((answer["content"], answer["title"])),
        ),
        Subject(
            "stores",
            Register("first"),
            lambda text: ("update_memory", {"store": "chaos", "path": f"kept/{name}", "content": text}),
            ("get_memory", {"store": "chaos", "path": f"kept/{name}"}),
            lambda answer: answer["content"],
        ),
        *_growing(name, round_),
    )


def _growing(name: str, round_: int) -> tuple[Subject, ...]:
    """Those to which clients only add."""
    return (
        Subject(
            "graph",
            GrowingSet(frozenset({"first"})),
            lambda text: (
                "add_observations",
                {
                    "project": "chaos",
                    "observations": [{"entity_name": f"{name}-{part}", "contents": [text]} for part in PARTS],
                },
            ),
            ("open_nodes", {"project": "chaos", "names": [f"{name}-{part}" for part in PARTS]}),
            lambda answer: _same(frozenset(entity["observations"]) for entity in answer["entities"]),
        ),
        Subject(
            "portals",
            GrowingSet(frozenset({"first"})),
            lambda text: (
                "portal_write",
                {
                    "portalUri": PORTAL,
                    "table": f"one_{round_}",
                    "data": [{"text": text, "part": part} for part in PARTS],
                },
            ),
            ("portal_query", {"portalUri": PORTAL, "sql": f"SELECT part, text FROM one_{round_}"}),
            lambda answer: _same(
                frozenset(row["text"] for row in answer["rows"] if row["part"] == part) for part in PARTS
            ),
        ),
    )


def _same(values: Iterable[Hashable]) -> Hashable:
    """The value that all parts have."""
    distinct = set(values)
    return distinct.pop() if len(distinct) == 1 else TORN


def run(folder: Path, rounds: int = ROUNDS) -> list[Ledger]:
    ledger, data_dir = Ledger("histories, with snapshots of several objects, are linearizable"), folder / "histories"

    def kill_servers() -> None:
        for pid in shared_server_pids(data_dir):
            kill(pid)

    with background_servers(data_dir), ExitStack() as stack:
        clients = [stack.enter_context(stdio_client(data_dir, ERAS[n % 2])) for n in range(CLIENTS)]
        prepare(clients[0])
        check_rounds(ledger, clients, rounds, kill_servers)
    return [ledger]


def check_rounds(
    ledger: Ledger,
    clients: Sequence[Call],
    rounds: int,
    kill_servers: Callable[[], None],
    families: Collection[str] = FAMILIES,
) -> None:
    """Each client works on the same objects while servers are killed; each object's history must be linearizable."""
    for round_ in range(rounds):
        chosen = _create(clients[0], round_, families)
        histories = _collect(ledger, clients, chosen, kill_servers)
        for subject in chosen:
            operations = histories[subject.name].operations
            ledger.attempts += len(operations)
            ledger.acknowledged |= {one.given for one in operations if one.kind == "write" and one.returned is not None}
            ledger.unsure |= {one.given for one in operations if one.returned is None}
            if not is_linearizable(operations, subject.model):
                ledger.fail(f"{subject.name}, round {round_}: no order of its {len(operations)} calls explains them")


def _create(call: Call, round_: int, families: Collection[str]) -> tuple[Subject, ...]:
    """The objects of a round, each with the value `first`."""
    name = f"one-{round_}"
    note_id = call("memory_create", {"content": "first", "namespace": "chaos"})["id"]
    chosen = {subject.name: subject for subject in subjects(note_id, round_) if subject.name in families}
    if "stores" in chosen:
        call("add_memory", {"store": "chaos", "path": f"kept/{name}", "content": "first"})
    entities = [{"name": f"{name}-{part}", "entity_type": "chaos", "observations": ["first"]} for part in PARTS]
    call("create_entities", {"project": "chaos", "entities": entities})
    for family in chosen.keys() & {"vault", "portals"}:
        call(*chosen[family].write("first"))
    return tuple(chosen.values())


def _collect(
    ledger: Ledger, clients: Sequence[Call], chosen: tuple[Subject, ...], kill_servers: Callable[[], None]
) -> dict[str, History]:
    """Of one round, by the names of its objects."""
    mark = f"r{ledger.attempts}"
    histories = {subject.name: History() for subject in chosen}
    threads = [
        threading.Thread(target=_run_client, args=(ledger, call, chosen, histories, f"{mark}c{number}"))
        for number, call in enumerate(clients)
    ]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        threads[0].join(KILL_INTERVAL_S)
        if threads[0].is_alive():
            kill_servers()
        else:
            for thread in threads:
                thread.join()
    return histories


def _run_client(
    ledger: Ledger, call: Call, chosen: tuple[Subject, ...], histories: dict[str, History], mark: str
) -> None:
    try:
        _work(call, chosen, histories, mark)
    except Exception as exc:  # noqa: BLE001  # reported at the end
        ledger.fail(f"a client failed: {exc!r}")


def _work(call: Call, chosen: tuple[Subject, ...], histories: dict[str, History], mark: str) -> None:
    chance = random.Random(mark)
    for number in range(OPERATIONS):
        subject = chance.choice(chosen)
        is_write = chance.random() < 0.5
        text = f"{mark}-{number}"
        tool, arguments = subject.write(text) if is_write else subject.read
        invoked = time.monotonic()
        try:
            answer = call(tool, arguments)
        except Refused:
            continue  # nothing happened
        except Unsure:
            if is_write:
                histories[subject.name].record(Operation("write", text, None, invoked, None))
            continue
        returned = time.monotonic()
        kind, value = ("write", None) if is_write else ("read", subject.value(answer))
        histories[subject.name].record(Operation(kind, text if is_write else None, value, invoked, returned))
