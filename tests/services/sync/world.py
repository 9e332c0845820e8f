"""A hub and its nodes in one process: real files, a fake clock, and a network that fails on demand."""

import json
import random
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock
from uuid import UUID

import apsw

from memory_mcp.caller import ALL_SCOPES, LOCAL_USER, Caller
from memory_mcp.changes import Change, Changes
from memory_mcp.clock import utc_now
from memory_mcp.engines.sqlite import Database
from memory_mcp.errors import AppError, Invalid, RateLimited, Unavailable
from memory_mcp.families.notes import Notes
from memory_mcp.families.notes.schema import SCHEMA
from memory_mcp.services.access import Limits, Tenants
from memory_mcp.services.access.model import Allowance
from memory_mcp.services.embedding import Embedders
from memory_mcp.services.embedding.choice import EmbeddingOptions
from memory_mcp.services.sync import hub as hubs
from memory_mcp.services.sync import node as nodes
from memory_mcp.services.sync.hub_client import HubClient, NodeForked
from memory_mcp.services.sync.node import ExchangeResult, Sync
from memory_mcp.services.sync.protocol import FORKED
from memory_mcp.text.time_spans import TimeReader
from tests.services.sync.visible_notes import Note, incoming_links, read_notes

START = datetime(2030, 1, 1, 12, tzinfo=UTC)
URL = "http://hub.test"
MAX_REQUESTS = 150  # in one exchange: more means that it does not end
SYNCED = ("one", "two")
PRIVATE = "private"
ME = Caller(LOCAL_USER, ALL_SCOPES, frozenset({"notes"}), namespace="one")


class SilentChanges(Changes):
    """Publishes nothing."""

    def __init__(self) -> None:
        pass

    def listen(self, listener: Any) -> None:
        pass

    def publish(self, user: str, uris: Iterable[str], *, list_changed: bool, namespace: str | None = None) -> None:
        Change(user, tuple(uris), list_changed, namespace=namespace)

    def close(self) -> None:
        pass


class Unlimited(Limits):
    def __init__(self) -> None:
        pass

    def take(self, who: str, limit: int, seconds: float = 60.0) -> Allowance:
        return Allowance(limit, limit, 0.0, 0.0)


class Lost(Unavailable):
    """A request or its answer got lost."""


class World:
    """One hub, its nodes, and their clock, which moves only when something happens."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="sync-"))
        self.ms = 0
        self.skew = 0  # of the active node
        self.random = random.Random(0)
        self.faults: dict[int, str] = {}  # of the next requests to the hub, by number
        self.n_requests = 0
        self.secret: str | None = None  # of all nodes
        self.forged: list[dict[str, Any]] = []  # added to the hub's next answer
        self.exchanging: Node | None = None
        self._patches: list[Any] = [
            mock.patch.object(nodes, "HubClient", partial(FakeNetwork, self)),
            mock.patch("memory_mcp.families.notes.transactions.uuid4", self._uuid),
        ]
        for patch in self._patches:
            patch.start()
        apsw.connection_hooks.append(self._own_time)
        self.hub = HubFile(self)
        self.nodes: list[Node] = []

    def close(self) -> None:
        for node in self.nodes:
            node.close()
        self.hub.db.close()
        apsw.connection_hooks.remove(self._own_time)
        for patch in self._patches:
            patch.stop()
        shutil.rmtree(self.folder)

    def add(self, *, copy_of: "Node | None" = None) -> "Node":
        node = Node(self, self.folder / f"node{len(self.nodes)}", copy_of)
        self.nodes.append(node)
        return node

    def check_leaving(self, text: str, ids: Iterable[str]) -> None:
        """Only notes of enabled namespaces may be sent to the hub."""
        node = self.exchanging
        if node is None:
            return
        assert not set(ids) & node.private, "A note outside the enabled namespaces was sent."
        for secret in node.secrets:
            assert secret not in text, f"{secret} was written where nothing is synced, and was sent"

    def now(self) -> datetime:
        return START + timedelta(milliseconds=self.ms + self.skew)

    @property
    def now_ms(self) -> int:
        return int(START.timestamp()) * 1000 + self.ms + self.skew

    def pass_time(self, ms: int) -> None:
        self.ms += ms

    @contextmanager
    def clock_of(self, skew: int) -> Iterator[None]:
        former, self.skew = self.skew, skew
        try:
            yield
        finally:
            self.skew = former

    def _own_time(self, connection: apsw.Connection) -> None:
        """Replace SQLite's clock and random numbers."""
        connection.create_scalar_function("unixepoch", self._unixepoch)
        connection.create_scalar_function("randomblob", self._randomblob)

    def _unixepoch(self, *body: Any) -> float:
        if body == ("subsec",):
            return self.now_ms / 1000
        return datetime.fromisoformat(body[0]).timestamp()

    def _uuid(self) -> UUID:
        return UUID(int=self.random.getrandbits(128), version=4)

    def _randomblob(self, *size: Any) -> Any:
        return self.random.randbytes(size[0])


class HubFile:
    """The hub, whose file can be restored to an earlier state."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.path = world.folder / "hub" / "hub.db"
        _from_template(self.path, hubs.SCHEMA)
        self._open()

    def _open(self) -> None:
        self.db = Database(self.path, hubs.SCHEMA, backups=self.path.parent, durability="normal", clock=self._world.now)
        self.hub = hubs.Hub(lambda user: self.db, Unlimited())

    def copy(self, target: Path) -> Path:
        self.db.close()
        shutil.copy(self.path, target)
        return target

    def restore_copy(self, copy: Path) -> None:
        self.db.close()
        self.path.unlink()
        shutil.copy(copy, self.path)
        self._open()

    def records(self) -> dict[str, Any]:
        with self.db.read() as tx:
            return {id_: json.loads(record) for id_, record in tx.all("SELECT id, record FROM records")}


class FakeNetwork(HubClient):
    """Sends a node's requests to the hub in this process, as JSON. Adds the forged records of a hostile hub."""

    def __init__(self, world: World, url: str, key: str) -> None:
        self._world = world
        self._left = MAX_REQUESTS
        self._forged = list(world.forged)

    def close(self) -> None:
        pass

    def _post(self, verb: str, body: dict[str, Any]) -> Any:
        self._world.n_requests += 1
        self._left -= 1
        assert self._left, f"An exchange does not come to an end: {body}"
        fault = self._world.faults.pop(self._world.n_requests, None)
        text = json.dumps(body, ensure_ascii=False)
        self._world.check_leaving(text, [record["id"] for record in body.get("records", [])])
        if fault == "request lost":
            raise Lost("The request got lost.")
        if fault == "request sent twice":
            with suppress(AppError):
                self._answer(verb, json.loads(text))
        answer = self._answer(verb, json.loads(text))
        if fault == "request received twice":
            with suppress(AppError):
                self._answer(verb, json.loads(text))
        if fault == "answer lost":
            raise Lost("The answer got lost.")
        forged, self._forged = self._forged, []
        answer["records" if verb == "pull" else "merged"] += forged
        return json.loads(json.dumps(answer))

    def _answer(self, verb: str, body: dict[str, Any]) -> dict[str, Any]:
        hub, world = self._world.hub.hub, self._world
        with world.clock_of(0):
            world.pass_time(1)
            try:
                if verb == "push":
                    return asdict(hub.push(ME, body["node"], body["ticket"], body["seal"], body["records"]))
                first = (
                    body.pop("node"),
                    body.pop("ticket"),
                    body.pop("seal"),
                    body.pop("namespace"),
                )
                return asdict(hub.pull(ME, *first, body.pop("after"), **body))
            except RateLimited:
                raise
            except AppError as exc:
                raise (NodeForked if exc.code == FORKED else Invalid)(exc.message) from exc


class Node:
    """One computer with notes, whose clock may be wrong."""

    def __init__(self, world: World, folder: Path, copy_of: "Node | None") -> None:
        self.world = world
        self.folder = folder
        self.skew: int = copy_of.skew if copy_of else 0
        self.private: set[str] = set()  # ids of notes and tombstones that must not be sent
        self.secrets: set[str] = set()  # texts that must not be sent
        self.path = folder / "notes.db"
        _from_template(self.path, SCHEMA)
        if copy_of:
            copy_of.close()
            shutil.copy(copy_of.path, self.path)
        self._open()
        with self.at_work():
            self.sync.link(LOCAL_USER, URL, "key", secret=world.secret)

    def _open(self) -> None:
        world = self.world
        opening = partial(self._database)
        self._files = Tenants(self.folder, self.path, opening)
        options = EmbeddingOptions("none", None, "", "", None, self.folder)
        self.notes = Notes(self._files, SilentChanges(), Embedders(options), TimeReader(utc_now))
        self.sync = Sync(
            lambda user: self.folder, self.notes.transfer.replica, lambda: world.now_ms, lambda seconds: None
        )

    def _database(self, path: Path) -> Database:
        return Database(path, SCHEMA, backups=self.folder, durability="normal", clock=self.world.now)

    @property
    def db(self) -> Database:
        return self._files.database(LOCAL_USER)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        self.world.pass_time(7)
        with self.world.clock_of(self.skew):
            yield

    def close(self) -> None:
        self._files.close()

    def copy(self, target: Path) -> Path:
        self.close()
        shutil.copy(self.path, target)
        return target

    def restore_copy(self, copy: Path) -> None:
        self.close()
        self.path.unlink()
        shutil.copy(copy, self.path)
        self._open()

    def exchange(self, max_records: int = 200, **faults: str) -> ExchangeResult:
        """`faults`: what goes wrong with which request, as `at_1="answer lost"`."""
        self.world.faults = {self.world.n_requests + int(name[3:]): fault for name, fault in faults.items()}
        before = self._untouchable()
        try:
            self.world.exchanging = self
            with self.at_work(), mock.patch.object(nodes, "MAX_RECORDS", max_records):
                return self.sync.run(LOCAL_USER)
        finally:
            self.world.faults, self.world.exchanging = {}, None
            self._check_untouched(before)

    def enabled(self) -> set[str]:
        with self.db.read() as tx:
            return {namespace for (namespace,) in tx.all("SELECT namespace FROM sync_namespaces WHERE enabled")}

    def detached(self) -> set[str]:
        """Ids of notes that this node has, or deleted, in namespaces that are never synced."""
        with self.db.read() as tx:
            tombstones: dict[str, str] = dict(tx.all("SELECT id, namespace FROM sync_tombstones"))
        placed = tombstones | {id_: note["namespace"] for id_, note in self.shown().items()}
        return {id_ for id_, namespace in placed.items() if namespace not in SYNCED}

    def _untouchable(self) -> dict[str, Note]:
        """The notes outside the enabled namespaces, with their incoming links. Also sets `private` and `secrets`."""
        enabled, every = self.enabled(), self.shown()
        with self.db.read() as tx:
            tombstones: dict[str, str] = dict(tx.all("SELECT id, namespace FROM sync_tombstones"))
        outside = {id_: note for id_, note in every.items() if note["namespace"] not in enabled}
        self.private = outside.keys() | {id_ for id_, namespace in tombstones.items() if namespace not in enabled}
        self.secrets = {str(note["metadata"]["token"]) for note in outside.values() if "token" in note["metadata"]}
        return {id_: {**note, "incoming": incoming_links(every, id_)} for id_, note in outside.items()}

    def _check_untouched(self, before: dict[str, Note]) -> None:
        """Nothing has changed, except links whose other end is gone or archived."""
        every = self.shown()
        gone = {end for note in before.values() for _, end in note["links"] | note["incoming"]} - every.keys()
        for id_, was in before.items():
            assert id_ in every, f"{id_} was deleted by the hub, where nothing is synced"
            now = {**every[id_], "incoming": incoming_links(every, id_)}
            for field in was.keys() - {"superseded_by", "links", "incoming", "wikilinks"}:
                assert now[field] == was[field], f"{id_}: the hub changed {field} where nothing is synced"
            for ends in ("links", "incoming"):
                assert now[ends] == {end for end in was[ends] if end[1] not in gone}
            superseders = {None} | {end for kind, end in was["incoming"] if kind == "supersedes"}
            assert now["superseded_by"] in superseders
            assert all(now["wikilinks"][key] in (target, None) for key, target in was["wikilinks"].items())

    def shown(self) -> dict[str, Note]:
        """Everything a user sees of the notes, by id."""
        with self.db.read() as tx:
            return read_notes(tx)

    def synced(self, but: Iterable[str] = ()) -> dict[str, Note]:
        """The notes that every node should have, with the links between them."""
        every = self.shown()
        here = {id_ for id_, note in every.items() if note["namespace"] in SYNCED} - set(but)
        return {
            id_: {
                **note,
                "links": {(kind, target) for kind, target in note["links"] if target in here},
                "superseded_by": note["superseded_by"] if note["superseded_by"] in here else None,
                "wikilinks": {key: target if target in here else None for key, target in note["wikilinks"].items()},
            }
            for id_, note in every.items()
            if id_ in here
        }

    def waiting(self) -> int:
        with self.at_work():
            return self.sync.status(LOCAL_USER).outbox


_TEMPLATES: dict[int, bytes] = {}


def _from_template(path: Path, schema: Any) -> None:
    """A new file from a template, which is faster than creating the tables."""
    path.parent.mkdir(parents=True)
    if schema.application_id not in _TEMPLATES:
        Database(path, schema, backups=path.parent, durability="normal").close()
        _TEMPLATES[schema.application_id] = path.read_bytes()
    path.write_bytes(_TEMPLATES[schema.application_id])
    if schema is SCHEMA:
        with apsw.Connection(str(path)) as connection:  # each node has its own id
            connection.execute("UPDATE sync_node SET node = lower(hex(randomblob(8)))")
        connection.close()
