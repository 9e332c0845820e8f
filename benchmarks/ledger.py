"""The acknowledged writes of several writers, and the values that are valid after they were merged."""

import threading
from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

Value = Hashable
CREATED, DELETED = "created", "deleted"


class Refused(Exception):
    """The server answered that it did not do it."""


@dataclass
class Written:
    """One write of a field. Without an answer, it may or may not have been stored."""

    writer: str
    value: Value
    acknowledged: bool = False


@dataclass
class Ledger:
    """Thread-safe. Values of fields in `unique` are written once only, so that it shows whose a value is."""

    unique: Collection[str]
    acknowledged: Counter[str] = field(default_factory=Counter)
    _guard: threading.Lock = field(default_factory=threading.Lock)
    _created: list[str] = field(default_factory=list)
    _tried: Counter[str] = field(default_factory=Counter)  # deletions that were not refused, by id
    deleted: set[str] = field(default_factory=set)  # whose deletion was acknowledged
    _fields: dict[str, dict[str, list[Written]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(list)))
    _overwritten: set[Value] = field(default_factory=set)

    def created(self, writer: str, id_: str, values: Mapping[str, Value]) -> None:
        with self._guard:
            self._created.append(id_)
            self.acknowledged[CREATED] += 1
            for name, value in values.items():
                self._fields[id_][name].append(Written(writer, value, acknowledged=True))

    @contextmanager
    def writing(self, writer: str, id_: str, values: Mapping[str, Value], seen: Mapping[str, Value]) -> Iterator[None]:
        """Around a write. What stood there before must not come back; `seen` is what the writer read."""
        written = {name: Written(writer, value) for name, value in values.items()}
        with self._guard:
            for name, one in written.items():
                self._fields[id_][name].append(one)
        try:
            yield
        except Refused:
            with self._guard:
                for name, one in written.items():
                    self._fields[id_][name].remove(one)
            raise
        with self._guard:
            for name, one in written.items():
                one.acknowledged = True
                self.acknowledged[kind(name)] += 1
                if kind(name) in self.unique and seen.get(name) not in (None, one.value):
                    self._overwritten.add(seen[name])

    @contextmanager
    def deleting(self, id_: str) -> Iterator[None]:
        with self._guard:
            self._tried[id_] += 1
        try:
            yield
        except Refused:  # it is not there: not yet, or no more
            with self._guard:
                self._tried[id_] -= 1
            raise
        with self._guard:
            self.deleted.add(id_)
            self.acknowledged[DELETED] += 1

    def living(self) -> list[str]:
        """Ids that no writer has tried to delete, the oldest first."""
        with self._guard:
            return [id_ for id_ in self._created if not self._tried[id_]]

    def resurrected(self, found: Mapping[str, Any]) -> list[str]:
        return sorted(self.deleted & found.keys())

    def lost(self, found: Mapping[str, Mapping[str, Value]]) -> Iterator[str]:
        """`found` are the fields of each note that there is, those that are not set left out."""
        for id_ in self._created:
            if id_ in found:
                yield from self._wrong(id_, found)
            elif not self._tried[id_]:
                yield f"{id_} is missing"

    def _wrong(self, id_: str, found: Mapping[str, Mapping[str, Value]]) -> Iterator[str]:
        for name, written in self._fields[id_].items():
            about, _, other = name.partition("/")
            if about in ("link", "supersedes") and other not in found:
                continue
            allowed = _allowed(written)
            if about in self.unique:
                allowed -= self._overwritten
            value = found[id_].get(name)
            if value not in allowed:
                yield f"{id_}: {name} is {value!r} instead of {sorted(map(str, allowed))}"


def kind(name: str) -> str:
    return name.partition("/")[0]


def _allowed(written: list[Written]) -> set[Value]:
    """Of each writer the last value that was acknowledged, and those after it without an answer."""
    allowed: set[Value] = set() if any(one.acknowledged for one in written) else {None}
    for writer in {one.writer for one in written}:
        own = [one for one in written if one.writer == writer]
        last = max((number for number, one in enumerate(own) if one.acknowledged), default=0)
        allowed |= {one.value for one in own[last:]}
    return allowed
