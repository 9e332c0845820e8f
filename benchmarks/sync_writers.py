"""The clients of `make soak-sync`, which write while everything goes wrong."""

import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from benchmarks.ledger import Ledger, Refused
from benchmarks.pipe import ServerProcess
from benchmarks.sync_nodes import NAMESPACES, Gone, Node

TAGS = ("red", "green", "blue")
KEYS = ("state", "owner")
HOT_NOTES = 60  # notes that most changes are made to, so that nodes run into each other
PACE_S = 0.1  # between two calls of a client, at most twice as long


class Writer(threading.Thread):
    """A client of a node that writes until it is stopped. Its server may be killed at any time; it starts another."""

    def __init__(self, node: Node, number: int, ledger: Ledger, end: float, seed: int) -> None:
        super().__init__(name=f"writer{number}", daemon=True)
        self.node = node
        self.unanswered = 0
        self.refused = 0
        self.failure: BaseException | None = None
        self._ledger = ledger
        self._end = end
        self._random = random.Random(f"{seed}/{number}")
        self._count = 0
        self._server: ServerProcess | None = None
        self._acts: list[tuple[int, Callable[[], None]]] = [
            (10, self._create),
            (40, self._update),
            (10, self._tag),
            (10, self._remark),
            (8, self._link),
            (3, self._supersede),
            (4, self._archive),
            (4, self._move),
            (4, self._erase),
        ]

    def kill(self) -> None:
        if server := self._server:
            server.kill()

    def run(self) -> None:
        try:
            while time.monotonic() < self._end:
                self._serve()
        except BaseException as exc:  # noqa: BLE001  # reported at the end
            self.failure = exc

    def _serve(self) -> None:
        """Until the server dies or the time is over."""
        with suppress(Gone), self.node.start() as self._server:
            self._call_server(self._server.shake_hands)
            while time.monotonic() < self._end:
                self._act()
                time.sleep(self._random.uniform(0, 2 * PACE_S))
        self._server = None

    def _act(self) -> None:
        weights = [weight for weight, _ in self._acts]
        [(_, act)] = self._random.choices(self._acts, weights)
        try:
            act()
        except Refused:
            self.refused += 1
        except Gone:
            self.unanswered += 1
            raise

    def _call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        server = self._server
        assert server is not None
        answer: dict[str, Any] = self._call_server(lambda: server.answer(tool, arguments))
        return answer

    @staticmethod
    def _call_server(work: Callable[[], Any]) -> Any:
        try:
            return work()
        except (OSError, ValueError) as exc:
            raise Gone from exc
        except RuntimeError as exc:
            raise (Gone if "has left" in str(exc) else Refused)(str(exc)) from exc

    # What it writes

    def _new(self, what: str) -> str:
        self._count += 1
        return f"{what} {self._count} of {self.name}"

    def _any(self) -> str:
        living = self._ledger.living()
        hot = living[-HOT_NOTES:] if self._random.random() < 0.8 else living
        if not hot:
            raise Refused
        return self._random.choice(hot)

    def _create(self) -> None:
        content, title, state = self._new("content"), self._new("title"), self._new("state")
        namespace, tags = self._random.choice(NAMESPACES), self._random.sample(TAGS, 1)
        note = self._call(
            "memory_create", content=content, title=title, namespace=namespace, tags=tags, metadata={KEYS[0]: state}
        )
        values = {"content": content, "title": title, "namespace": namespace, f"metadata/{KEYS[0]}": state}
        self._ledger.created(self.name, note["id"], values | {f"tag/{tag}": True for tag in tags})

    def _update(self) -> None:
        id_ = self._any()
        seen = self._call("memory_get", id=id_)
        names = self._random.sample(("content", "title", "folder", "expires_at"), self._random.randint(1, 2))
        values = {name: self._value(name) for name in names}
        with self._ledger.writing(self.name, id_, values, seen):
            self._call("memory_update", id=id_, **values, **self._importance())

    def _value(self, name: str) -> str:
        if name == "expires_at":
            self._count += 1
            moment = time.gmtime(4_000_000_000 + self._count * 100 + int(self.name.removeprefix("writer")))
            return time.strftime("%Y-%m-%dT%H:%M:%S.000Z", moment)
        link = f" [[{self._title()}]]" if name == "content" and self._random.random() < 0.3 else ""
        return self._new(name) + link

    def _title(self) -> str:
        return str(self._call("memory_get", id=self._any())["title"])

    def _importance(self) -> dict[str, float]:
        return {"importance": self._random.randrange(100) / 100} if self._random.random() < 0.2 else {}

    def _tag(self) -> None:
        id_, tag, add = self._any(), self._random.choice(TAGS), self._random.random() < 0.5
        with self._ledger.writing(self.name, id_, {f"tag/{tag}": add or None}, {}):
            self._call("memory_update", id=id_, **{"add_tags" if add else "remove_tags": [tag]})

    def _remark(self) -> None:
        id_, key = self._any(), self._random.choice(KEYS)
        value = self._new(key) if self._random.random() < 0.7 else None
        seen = {f"metadata/{key}": self._call("memory_get", id=id_)["metadata"].get(key)}
        with self._ledger.writing(self.name, id_, {f"metadata/{key}": value}, seen):
            self._call("memory_update", id=id_, metadata_patch={key: value})

    def _link(self) -> None:
        source, target, make = self._any(), self._any(), self._random.random() < 0.6
        if source == target:
            raise Refused
        also = {} if make else {f"supersedes/{target}": None}
        with self._ledger.writing(self.name, source, {f"link/{target}": make or None, **also}, {}):
            self._call("memory_link" if make else "memory_unlink", source_id=source, target_id=target)

    def _supersede(self) -> None:
        newer, older = self._any(), self._any()
        with self._ledger.writing(self.name, newer, {f"supersedes/{older}": True}, {}):
            self._call("memory_update", id=newer, supersedes=[older])

    def _archive(self) -> None:
        id_, archive = self._any(), self._random.random() < 0.5
        with self._ledger.writing(self.name, id_, {"archived": archive or None}, {}):
            if archive:
                self._call("memory_delete", id=id_)
            else:
                self._call("memory_update", id=id_, remove_tags=["archived"])

    def _move(self) -> None:
        id_, namespace = self._any(), self._random.choice(NAMESPACES)
        with self._ledger.writing(self.name, id_, {"namespace": namespace}, {}):
            self._call("memory_update", id=id_, namespace=namespace)

    def _erase(self) -> None:
        id_ = self._any()
        with self._ledger.deleting(id_):
            self._call("memory_delete", id=id_, soft=False)
