"""Nodes converge: in whatever order records travel, and whatever is lost or restored on the way, once all nodes have
exchanged everything, they show the same notes. No deleted note is back, and no other note is lost.

Whatever a hub forges, a node's notes in namespaces that are not enabled stay unchanged, and are never sent
(tests/services/sync/world.py checks that in every exchange)."""

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from memory_mcp.caller import LOCAL_USER
from memory_mcp.errors import AppError, NotFound
from memory_mcp.families.notes.model import Author, NewNote, Revision
from memory_mcp.services.sync.records import DELETION
from tests.services.sync.visible_notes import Note
from tests.services.sync.world import ME, PRIVATE, SYNCED, Lost, Node, World

EXAMPLES = int(os.environ.get("MEMORY_MCP_SYNC_EXAMPLES", "30"))  # `make soak-sync-model` takes many
STEPS = 40
ROUNDS = 12  # of exchanges until nothing is left to send

numbers = st.integers(0, 9)
titles = st.sampled_from(["Alpha", "Beta", "Gamma", None])
contents = st.sampled_from(["Plain", "See [[Alpha]] #x", "See [[Beta]] and [[alpha]]", "Gamma\n[[Gamma]] #Y", "Alpha"])
namespaces = st.sampled_from([*SYNCED, PRIVATE])
tags = st.sampled_from(["x", "X", "y", "z", "ns/one"])
values: st.SearchStrategy[Any] = st.sampled_from([None, 1, True, 1.5, "v", {"a": []}])
faults = st.dictionaries(
    st.sampled_from(["at_1", "at_2", "at_3", "at_4"]),
    st.sampled_from(["request lost", "answer lost", "request sent twice", "request received twice"]),
    max_size=2,
)
revisions = st.one_of(
    st.fixed_dictionaries({"content": contents}),
    st.fixed_dictionaries({"title": titles}),
    st.fixed_dictionaries({"folder": st.sampled_from(["", "a", "b/c"])}),
    st.fixed_dictionaries({"add_tags": tags.map(lambda tag: (tag,))}),
    st.fixed_dictionaries({"remove_tags": tags.map(lambda tag: (tag,))}),
    st.just({"remove_tags": ("archived",)}),
    st.fixed_dictionaries({"metadata_patch": st.dictionaries(st.sampled_from("kl"), values, max_size=2)}),
    st.fixed_dictionaries({"importance": st.sampled_from([0.0, 0.2, 0.9, 1.0])}),
    st.fixed_dictionaries(
        {"expires_at": st.sampled_from(["", "2040-01-01T00:00:00.000Z", "2041-01-01T00:00:00.000Z"])}
    ),
    st.fixed_dictionaries({"namespace": namespaces}),
)
attacks = st.sampled_from(["overwrite", "move", "delete", "strip", "link", "supersede"])
AUTHOR = Author("mcp", "codex")


def _forged(kind: str, id_: str, other: str, namespace: str, stamp: str) -> dict[str, Any]:
    """A record that a hub without the secret may forge."""
    registers: dict[str, Any] = {"namespace": [stamp, namespace]}
    if kind == "delete":
        return {"id": id_, "registers": registers, DELETION: stamp}
    if kind == "strip":
        removed = {name: [stamp] for name in ("title", "expires_at", "archived", "tag/t", "metadata/k")}
        return {"id": id_, "registers": registers | removed}
    if kind == "overwrite":
        registers |= {
            "content": [stamp, "Forged [[Alpha]]"],
            "folder": [stamp, ""],
            "tag/evil": [stamp, ["evil", "user"]],
        }
    if kind in ("link", "supersede"):
        name = "link" if kind == "link" else "supersedes"
        registers |= {f"{name}/{other}": [stamp, other], "content": [stamp, "Forged"], "folder": [stamp, ""]}
    if kind == "move":
        return {"id": id_, "registers": registers}
    moment = "2030-01-01T12:00:00.000Z"
    return {"id": id_, "registers": registers, "importance": 1.0, "updated_at": moment, "created": [moment, None]}


class Syncing(RuleBasedStateMachine):
    """Three nodes at first, on real files, and their hub."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.ids: list[str] = []
        self.tokens = 0
        self.deleted: set[str] = set()
        self.strayed: set[str] = set()  # notes that were in a namespace that is not synced
        self.written: dict[str, dict[Any, Any]] = {}  # by note and field: what was written last
        self.is_exact = True  # whether the last write is also the last by every clock
        self.was_a_node_restored = False
        self.copies: list[tuple[Node | None, Any]] = []

    @initialize(sealed=st.booleans())
    def begin(self, sealed: bool = False) -> None:
        self.world.secret = f"mms_{'A' * 43}" if sealed else None
        for _ in range(3):
            node = self.world.add()
            for namespace in SYNCED:
                with node.at_work():
                    node.sync.enable(LOCAL_USER, namespace)

    # Actions of users

    @rule(n=numbers, title=titles, content=contents, namespace=namespaces)
    def create(self, n: int, title: str | None, content: str, namespace: str) -> None:
        node = self._node(n)

        def creating() -> None:
            self.tokens += 1
            metadata = {"k": 0, "token": f"token-{self.tokens}-"}
            new = NewNote(content, title=title, namespace=namespace, tags=("t",), metadata=metadata)
            self.ids += [note.id for note in node.notes.writer.create_all(ME, AUTHOR, [new])]

        self._write(node, creating)

    @rule(n=numbers, i=numbers, changes=revisions)
    def revise(self, n: int, i: int, changes: dict[str, Any]) -> None:
        self._with_note(n, i, lambda node, id_: node.notes.writer.update(ME, AUTHOR, id_, Revision(**changes)))

    @rule(n=numbers, i=numbers)
    def archive(self, n: int, i: int) -> None:
        self._with_note(n, i, lambda node, id_: node.notes.writer.delete(ME, id_, soft=True))

    @rule(n=numbers, i=numbers)
    def read(self, n: int, i: int) -> None:
        self._with_note(n, i, lambda node, id_: node.notes.reader.get(ME, id_))

    @rule(n=numbers, i=numbers, j=numbers, how=st.sampled_from(["link", "unlink", "supersede"]), both=st.booleans())
    def relate(self, n: int, i: int, j: int, how: str, both: bool) -> None:
        node, one, two = self._node(n), self._id(i), self._id(j)
        if not one or not two or one == two or not {one, two} <= node.shown().keys():
            return
        if how == "supersede":
            self._write(node, lambda: node.notes.writer.update(ME, AUTHOR, one, Revision(supersedes=(two,))))
        else:
            relate = node.notes.writer.link if how == "link" else node.notes.writer.unlink
            self._write(node, lambda: relate(ME, one, two, bidirectional=both))

    @rule(n=numbers, i=numbers)
    def delete(self, n: int, i: int) -> None:
        node, id_ = self._node(n), self._id(i)
        note = node.shown().get(id_ or "")
        if note is None:
            return
        self._write(node, lambda: node.notes.writer.delete(ME, str(id_), soft=False))
        if note["namespace"] in SYNCED and self._tracks(node, note["namespace"]):
            self.deleted.add(str(id_))
        else:
            self.strayed.add(str(id_))  # another node may still have it

    # Events on the network

    @rule(n=numbers, size=st.sampled_from([1, 2, 3, 200]), faults=faults)
    def exchange(self, n: int, size: int, faults: dict[str, str]) -> None:
        try:
            self._node(n).exchange(size, **faults)
        except Lost:
            assert faults

    @rule()
    def exchange_all(self) -> None:
        for node in self.world.nodes:
            node.exchange()

    @rule(n=numbers, ms=st.sampled_from([1, 500, 61_000, 3_600_000]))
    def wait(self, n: int, ms: int) -> None:
        self.world.pass_time(ms)

    @rule(n=numbers, ms=st.sampled_from([-3_600_000, -61_000, -700, 300, 59_000, 3_600_000]))
    def clock_jumps(self, n: int, ms: int) -> None:
        self._node(n).skew += ms
        self.is_exact = False

    @rule(
        n=numbers,
        namespace=st.sampled_from(SYNCED),
        verb=st.sampled_from(["disable", "enable", "resync", "clear_state"]),
    )
    def configure(self, n: int, namespace: str, verb: str) -> None:
        node = self._node(n)
        with node.at_work(), suppress(NotFound):
            getattr(node.sync, verb)(LOCAL_USER, namespace)
        if verb == "clear_state":
            self.is_exact = False  # every field is then as old as the whole note

    # Attacks by a hostile hub, or by anyone with the key

    @rule(n=numbers, i=numbers, j=numbers, kind=attacks, namespace=namespaces)
    def attack(self, n: int, i: int, j: int, kind: str, namespace: str) -> None:
        """Forge a record of any note, or of a new one that touches it, and send it to a node with the next answer.

        Where the hub can write, all nodes get it, and still agree. No node accepts a move to a private namespace, or
        an unsealed record where notes are sealed."""
        node, id_ = self._node(n), self._id(i)
        if id_ is None:
            return
        self.world.pass_time(1)
        with self.world.clock_of(0):
            stamp = f"{self.world.now_ms:015d}:00000:evil"
        is_taken = self.world.secret is None and namespace != PRIVATE
        kind = kind if is_taken or self.world.secret else "move"
        forged = _forged(kind, id_, str(self._id(j)), namespace, stamp)
        if is_taken:
            self.world.hub.hub.push(ME, f"evil{self.tokens}{self.world.ms}", None, None, [forged])
            self.is_exact = False
            if forged.get(DELETION):
                self.strayed.add(id_)
        self.world.forged = [forged]
        try:
            node.exchange()
        finally:
            self.world.forged = []

    # Copies and restores

    @precondition(lambda self: len(self.world.nodes) < 5)
    @rule(n=numbers)
    def clone(self, n: int) -> None:
        self.world.add(copy_of=self._node(n))

    @rule(n=numbers)
    def back_up(self, n: int) -> None:
        node = self._node(n)
        self.copies.append((node, node.copy(self._place())))

    @rule()
    def back_up_the_hub(self) -> None:
        self.copies.append((None, self.world.hub.copy(self._place())))

    @precondition(lambda self: self.copies)
    @rule(c=numbers, after_exchange=st.booleans())
    def restore(self, c: int, after_exchange: bool) -> None:
        """Restore a node or the hub. Changes that the hub never received may be lost."""
        node, copy = self.copies[c % len(self.copies)]
        if node is None:
            self.world.hub.restore_copy(copy)
            self.is_exact = self.is_exact and not self.was_a_node_restored  # the hub had what the node lost
        else:
            if after_exchange:
                node.exchange()
            if not after_exchange or node.waiting() or self._is_off(node):
                self.is_exact = False
            node.restore_copy(copy)
            self.was_a_node_restored = True
        self.deleted &= self._known_deletions()

    # The end

    def teardown(self) -> None:
        try:
            if self.world.nodes:
                self._exchange_everything()
                self._check_all_agree()
                self._check_nothing_is_back()
                self._check_nothing_is_lost()
        finally:
            self.world.close()

    def _exchange_everything(self) -> None:
        self.world.pass_time(7_200_000)  # now no stamp is ahead of the hub
        for node in self.world.nodes:
            for namespace in SYNCED:
                with node.at_work():
                    node.sync.enable(LOCAL_USER, namespace)
        for _ in range(ROUNDS):
            done = [node.exchange() for node in self.world.nodes]
            if not any(one.pushed or one.pulled or one.refused for one in done):
                return
        raise AssertionError(f"Nodes do not come to rest: {done}")

    def _check_all_agree(self) -> None:
        for number, node in enumerate(self.world.nodes[1:], 1):
            apart = self.world.nodes[0].detached() | node.detached()  # notes of one node alone
            first, other = self.world.nodes[0].synced(apart), node.synced(apart)
            differing = {
                id_: {
                    field: (self._of(first, id_, field), self._of(other, id_, field))
                    for field in (first.get(id_) or other[id_])
                    if self._of(first, id_, field) != self._of(other, id_, field)
                }
                for id_ in first.keys() | other.keys()
                if first.get(id_) != other.get(id_)
            }
            assert not differing, f"node 0 and node {number}: {differing}"

    @staticmethod
    def _of(notes: dict[str, Note], id_: str, field: str) -> Any:
        return notes[id_][field] if id_ in notes else "no such note"

    def _check_nothing_is_back(self) -> None:
        for node in self.world.nodes:
            assert not self.deleted & node.synced().keys()

    def _check_nothing_is_lost(self) -> None:
        if not self.is_exact:
            return
        found = self.world.nodes[0].synced()
        for id_, fields in self.written.items():
            if id_ in self.deleted | self.strayed:
                continue
            assert id_ in found, f"{id_} is lost"
            shown = _fields(found[id_])
            for field, value in fields.items():
                assert shown.get(field) == value, f"{id_}: {field} is {shown.get(field)!r} and was {value!r}"

    # Helpers

    def _known_deletions(self) -> set[str]:
        """Deletions that some node or the hub knows. A deletion is lost with the only state that had it."""
        known = {id_ for id_, record in self.world.hub.records().items() if record.get(DELETION)}
        for node in self.world.nodes:
            with node.db.read() as tx:
                known |= {id_ for (id_,) in tx.all("SELECT id FROM sync_tombstones")}
        return known

    def _node(self, n: int) -> Node:
        return self.world.nodes[n % len(self.world.nodes)]

    def _id(self, i: int) -> str | None:
        return self.ids[i % len(self.ids)] if self.ids else None

    def _place(self) -> Any:
        return self.world.folder / f"copy{len(self.copies)}"

    def _with_note(self, n: int, i: int, act: Callable[[Node, str], Any]) -> None:
        node, id_ = self._node(n), self._id(i)
        if id_ and id_ in node.shown():
            self._write(node, lambda: act(node, id_))

    def _write(self, node: Node, act: Callable[[], Any]) -> None:
        """Run `action`, and remember which fields of which notes it changed."""
        before = node.shown()
        with node.at_work():
            try:
                act()
            except AppError as exc:
                assert exc.code == "invalid", exc.message  # noqa: PT017  # a note cannot supersede what supersedes it
        for id_, note in node.shown().items():
            former = _fields(before[id_]) if id_ in before else {}
            latter = _fields(note)
            if note["namespace"] not in SYNCED or not self._tracks(node, note["namespace"]):
                self.strayed |= {id_} if former != latter else set()
            for field in former.keys() | latter.keys():
                if former.get(field) != latter.get(field):
                    self.written.setdefault(id_, {})[field] = latter.get(field)

    def _tracks(self, node: Node, namespace: str) -> bool:
        with node.at_work():
            return namespace in {one.namespace for one in node.sync.status(LOCAL_USER).namespaces}

    def _is_off(self, node: Node) -> bool:
        with node.at_work():
            return sum(one.enabled for one in node.sync.status(LOCAL_USER).namespaces) < len(SYNCED)


def _fields(note: Note) -> dict[Any, Any]:
    """The written fields, without derived ones."""
    return {
        "content": note["content"],
        "title": note["title"] if note["own_title"] else None,
        "folder": note["folder"],
        "namespace": note["namespace"],
        "archived": note["archived"],
        "expires_at": note["expires_at"],
        **{("tag", tag.casefold()): origin for tag, origin in note["tags"] if origin == "user"},
        **{("metadata", key): repr(value) for key, value in note["metadata"].items()},
    }


TestSyncing = Syncing.TestCase
TestSyncing.settings = settings(
    max_examples=EXAMPLES,
    stateful_step_count=STEPS,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)
