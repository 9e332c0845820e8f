"""Nodes that sync through a hub while everything goes wrong: `make soak-sync`.

Three nodes, one of them with two servers on its folder, and a hub, each a process of its own on a network of its own.
Clients write through the servers' tools while links are cut, nodes and the hub are killed (SIGKILL), two nodes' clocks
are an hour off, and another client of the same user takes up all pushes the hub allows. Then it is quiet, and each node
syncs until nothing is left. All must show the same notes, with everything that was acknowledged and nothing deleted.
"""

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import apsw

from benchmarks import networks
from benchmarks.figures import introduction, load
from benchmarks.ledger import Ledger
from benchmarks.networks import Network
from benchmarks.sync_nodes import SKEWS, Hub, Node
from benchmarks.sync_writers import Writer

SECONDS = 600.0
SERVERS = (0, 0, 1, 2)  # each on the folder of this node
UNIQUE = ("content", "title", "folder", "metadata", "expires_at")  # fields whose values are written once only
TROUBLE = (0.5, 4.0)  # seconds between two troubles
STORM_S = 15.0
PRINT_INTERVAL_S = 30.0
MAX_ROUNDS = 30  # of syncing at the end
SHOWN = 10
COMPLAINTS = re.compile(r"traceback|left out|failed|damaged", re.IGNORECASE)


class Troubles:
    """What goes wrong, one thing after the other."""

    def __init__(self, network: Network, hub: Hub, nodes: Sequence[Node], writers: Sequence[Writer], seed: int) -> None:
        self.made: Counter[str] = Counter()
        self._network = network
        self._hub = hub
        self._nodes = nodes
        self._writers = writers
        self._random = random.Random(seed)
        self._cut: dict[Node, float] = {}  # until when
        self._storms: list[subprocess.Popen[bytes]] = []
        self._storm_ends = 0.0
        self.too_often = 0

    def make(self) -> None:
        """One fault, and heal those that have lasted long enough."""
        self._heal(time.monotonic())
        self._random.choice(
            (self._kill_node, self._kill_node, self._kill_hub, self._cut_link, self._cut_link, self._storm)
        )()
        time.sleep(self._random.uniform(*TROUBLE))

    def end(self) -> None:
        self._heal(float("inf"))
        for storm in self._storms:
            output, _ = storm.communicate(timeout=STORM_S + 60)
            self.too_often += int(output or 0)

    def _heal(self, now: float) -> None:
        for node in [node for node, until in self._cut.items() if until < now]:
            del self._cut[node]
            node.heal()

    def _kill_node(self) -> None:
        self.made["nodes killed"] += 1
        self._random.choice(self._writers).kill()

    def _kill_hub(self) -> None:
        self.made["hub killed"] += 1
        self._hub.kill()
        time.sleep(self._random.uniform(0, 3))
        self._hub.start()

    def _cut_link(self) -> None:
        node = self._random.choice(self._nodes)
        if node not in self._cut:
            self.made["links cut"] += 1
            self._cut[node] = time.monotonic() + self._random.choice((1, 5, 20))
            node.cut(self._random.choice(("silent", "noticed")))

    def _storm(self) -> None:
        if time.monotonic() < self._storm_ends + STORM_S:
            return
        self.made["storms"] += 1
        self._storm_ends = time.monotonic() + STORM_S
        url = f"http://127.0.0.1:{self._network.hub_port}"
        command = [sys.executable, "-m", __spec__.name, "--storm", url, "--key", self._hub.key]
        self._storms.append(subprocess.Popen(self._network.at(None, command), stdout=subprocess.PIPE))


def storm(url: str, key: str) -> int:
    """Push nothing, as often as it goes. How often that was too often."""
    too_often, ticket = 0, None
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    node, end = f"{random.getrandbits(64):016x}", time.monotonic() + STORM_S
    while time.monotonic() < end:
        body = json.dumps({"node": node, "ticket": ticket, "records": []}).encode()
        try:
            request = urllib.request.Request(f"{url}/api/sync/push", body, headers)  # noqa: S310  # http
            with urllib.request.urlopen(request, timeout=5) as answer:  # noqa: S310
                ticket = json.load(answer)["ticket"]
        except urllib.error.HTTPError as exc:
            too_often += exc.code == 429
            time.sleep(0.05)
        except (OSError, ValueError):  # the hub was killed
            time.sleep(0.2)
    return too_often


# At the end


def settle(nodes: Sequence[Node]) -> int | None:
    """Sync all until nothing is left. How many rounds that took, or None if it takes too many."""
    for number in range(1, MAX_ROUNDS + 1):
        answers = [node.now() for node in nodes]
        if not any(answer["pushed"] or answer["pulled"] or answer["refused"] or answer["left"] for answer in answers):
            return number
    return None


def shown(file: Path) -> dict[str, dict[str, Any]]:
    """By id, all that a node shows of its notes."""
    with closing(apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READONLY)) as db:
        cursor = db.execute(
            """
            SELECT note.id, note.namespace, note.title, note.content, note.folder, note.importance, note.metadata,
                note.client, note.created_at, note.updated_at, note.last_referenced_at, note.expires_at, note.archived,
                newer.id AS superseded_by
            FROM notes AS note LEFT JOIN notes AS newer ON newer.seq = note.superseded_by
            """
        )
        names = [column[0] for column in cursor.description]
        notes = {row[0]: dict(zip(names, row, strict=True)) for row in cursor}
        for note in notes.values():
            note |= {f"metadata/{key}": value for key, value in json.loads(note.pop("metadata")).items()}
            note["archived"] = bool(note["archived"]) or None
        for id_, tag, origin in db.execute("SELECT id, tag, origin FROM note_tags JOIN notes ON notes.seq = note_seq"):
            notes[id_][f"tag/{tag}" if origin == "user" else f"{origin} tag/{tag}"] = True
        for id_, kind, other in db.execute(
            """
            SELECT source.id, kind, target.id FROM note_links
            JOIN notes AS source ON source.seq = source_seq JOIN notes AS target ON target.seq = target_seq
            """
        ):
            notes[id_][f"{kind}/{other}"] = True
        for id_, title, other in db.execute(
            """
            SELECT source.id, link.title_key, target.id FROM note_wikilinks AS link
            JOIN notes AS source ON source.seq = source_seq LEFT JOIN notes AS target ON target.seq = target_seq
            """
        ):
            notes[id_][f"wikilink/{title}"] = other or "nothing"
    return notes


def differences(first: dict[str, dict[str, Any]], other: dict[str, dict[str, Any]], name: str) -> Iterator[str]:
    for id_ in first.keys() | other.keys():
        one, two = first.get(id_), other.get(id_)
        if one is None or two is None:
            yield f"{id_} is {'only' if one is None else 'not'} on {name}"
            continue
        for key in sorted(one.keys() | two.keys()):
            if one.get(key) != two.get(key):
                yield f"{id_}: {key} is {two.get(key)!r} on {name}, {one.get(key)!r} on the first"


def complaints(folder: Path) -> list[str]:
    return [
        f"{log.name}: {line}"
        for log in sorted(folder.glob("*.log"))
        for line in log.read_text(encoding="utf-8", errors="replace").splitlines()
        if COMPLAINTS.search(line)
    ]


# All of it


@contextmanager
def networked(nodes: int, *, proxies: bool) -> Iterator[Network]:
    network = networks.create_network(nodes, proxies=proxies)
    try:
        yield network
    finally:
        network.close()


def link(nodes: Sequence[Node], key: str, *, encrypt: bool) -> None:
    first, *others = nodes
    output = first.link(key, *(["--encrypt"] if encrypt else []))
    for node in others:
        node.link(key, *(["--secret", output["secret"]] if encrypt else []))


def soak(network: Network, folder: Path, seconds: float, seed: int, *, encrypt: bool) -> bool:
    """Whether all went well."""
    hub = Hub(network, folder)
    with ExitStack() as stack:
        stack.callback(hub.kill)
        nodes = [Node(network, number, folder) for number in range(len(SKEWS))]
        link(nodes, hub.key, encrypt=encrypt)
        ledger = Ledger(UNIQUE)
        end = time.monotonic() + seconds
        writers = [Writer(nodes[node], number, ledger, end, seed) for number, node in enumerate(SERVERS)]
        troubles = Troubles(network, hub, nodes, writers, seed)
        for writer in writers:
            writer.start()
        _trouble(troubles, ledger, end)
        troubles.end()
        for writer in writers:
            writer.join(60)
        rounds = settle(nodes)
        return _judge(folder, nodes, ledger, writers, troubles, rounds)


def _trouble(troubles: Troubles, ledger: Ledger, end: float) -> None:
    printed_at = time.monotonic()
    while time.monotonic() < end:
        troubles.make()
        if time.monotonic() > printed_at + PRINT_INTERVAL_S:
            printed_at += PRINT_INTERVAL_S
            print(f"  {ledger.acknowledged.total()} acknowledged, {_counted(troubles.made)}", flush=True)


def _judge(
    folder: Path,
    nodes: Sequence[Node],
    ledger: Ledger,
    writers: Sequence[Writer],
    troubles: Troubles,
    rounds: int | None,
) -> bool:
    found = [shown(node.file) for node in nodes]
    wrong = {
        "Not quiet": [] if rounds else [f"Something was left after {MAX_ROUNDS} rounds of syncing."],
        "Different": [
            line for number in range(1, len(nodes)) for line in differences(found[0], found[number], nodes[number].name)
        ],
        "Lost": list(ledger.lost(found[0])),
        "Came back": [id_ for notes in found for id_ in ledger.resurrected(notes)],
        "Damaged": [f"{node.name}: {problem}" for node in nodes for problem in node.damages()],
        "Stuck": [repr(writer.failure) for writer in writers if writer.failure or writer.is_alive()],
        "In the logs": complaints(folder),
    }
    for title, lines in wrong.items():
        if lines:
            print(f"\n{title} ({len(lines)}):", *lines[:SHOWN], sep="\n  ")
    unanswered, refused = sum(writer.unanswered for writer in writers), sum(writer.refused for writer in writers)
    acknowledged = f"{ledger.acknowledged.total()} writes acknowledged ({_counted(ledger.acknowledged)})"
    print(
        f"\n{_counted(troubles.made)}; the storms heard 429 {troubles.too_often} times\n"
        f"{acknowledged}, {unanswered} unanswered, {refused} refused\n"
        f"{len(found[0])} notes on each of {len(nodes)} nodes after {rounds} rounds of syncing: "
        f"{len(wrong['Different'])} differences, {len(wrong['Lost'])} lost, "
        f"{len(wrong['Came back'])} of {len(ledger.deleted)} deleted came back",
        flush=True,
    )
    return not any(wrong.values())


def _counted(counter: Counter[str]) -> str:
    return ", ".join(f"{count} {what}" for what, count in sorted(counter.items()))


def main() -> None:
    options = _arguments()
    if options.storm:
        print(storm(options.storm, options.key))
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the hub and the networks go as well
    print(introduction(), flush=True)
    with (
        tempfile.TemporaryDirectory(prefix="memory-mcp-sync-", dir=options.dir, ignore_cleanup_errors=True) as folder,
        networked(len(SKEWS), proxies=options.proxies) as network,
    ):
        print(f"{len(SKEWS)} nodes in {network.kind} for {options.seconds:.0f} s, seed {options.seed}", flush=True)
        went_well = soak(network, options.keep or Path(folder), options.seconds, options.seed, encrypt=options.encrypt)
    print(f"{'All is well' if went_well else 'Failed'}; {load()} at the end")
    sys.exit(0 if went_well else 1)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make soak-sync", description=__doc__)
    seconds = float(os.environ.get("SOAK_SECONDS") or SECONDS)
    parser.add_argument("--seconds", type=float, default=seconds, help="how long [SOAK_SECONDS]")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="of what goes wrong when")
    parser.add_argument("--dir", type=Path, help="where to put the data, such as another disk")
    parser.add_argument("--keep", type=Path, help="a new folder for the data, which stays there")
    parser.add_argument("--encrypt", action="store_true", help="end to end")
    parser.add_argument("--proxies", action="store_true", help="cut links with TCP proxies, as without root")
    parser.add_argument("--storm", help=argparse.SUPPRESS)
    parser.add_argument("--key", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.keep:
        options.keep.mkdir(parents=True)
    return options


if __name__ == "__main__":
    main()
