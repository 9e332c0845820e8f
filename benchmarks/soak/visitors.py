"""The clients of `make soak`: what each writes and reads, and what it must find again."""

import random
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import quote

WRITES = 0.4  # of all calls
OVERWRITES = 0.3  # of the writes of families that can
STORE, PROJECT, PORTAL, TABLE = "soak", "soak", "mem://soak/soak", "events"
ROWS = 5  # of one write to a portal
READ_BATCH_SIZE = 40  # entities, or rows, read back in one call
SEED = 7
WRITING_TOOLS = {
    *("commit_memory", "memory_create", "memory_update", "add_memory", "update_memory", "create_entities"),
    *("add_observations", "portal_write"),
}


class Wrong(Exception):
    """An answer that is not what was written."""


class AnyClient(Protocol):
    """A client over HTTP or stdio. Both raise CallFailed."""

    notifications: int  # received so far

    async def call(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]: ...

    async def read(self, uri: str) -> Any: ...


@dataclass
class Record:
    """What happened, for all clients."""

    taken: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    timeline: list[tuple[float, float, bool]] = field(default_factory=list)  # begin, duration, whether it wrote
    failed: list[str] = field(default_factory=list)

    @property
    def calls(self) -> int:
        return len(self.timeline)

    def add(self, tool: str, at_s: float, taken_s: float) -> None:
        self.taken[tool].append(taken_s)
        self.timeline.append((at_s, taken_s, tool in WRITING_TOOLS))


@dataclass
class Kept:
    """The acknowledged writes of one client: the last content of each item, by its name."""

    vault: dict[str, str] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    stores: dict[str, str] = field(default_factory=dict)
    graph: dict[str, list[str]] = field(default_factory=dict)
    portals: dict[str, str] = field(default_factory=dict)
    acknowledged: Counter[str] = field(default_factory=Counter)


class Visitor:
    """One client of a user. Those of different users use the same names, so that a mix-up shows."""

    def __init__(
        self, client: AnyClient, user: str, number: int, texts: Sequence[str], questions: Sequence[str]
    ) -> None:
        self.client = client
        self.kept = Kept()
        self.user = user
        self._number = number
        self._texts = texts
        self._questions = questions
        self._random = random.Random(f"{SEED}/{user}/{number}")
        self._count = 0
        self._writes = (self._vault, self._note, self._memory, self._entity, self._rows)
        self._reads = (self._look_in_vault, self._look_at_notes, self._look_in_store, self._look_at_graph, self._sum_up)

    async def act(self) -> str:
        """Do one thing and check it. The tool that was called."""
        acts = self._writes if self._random.random() < WRITES else self._reads
        return await self._random.choice(acts)()

    def _content(self) -> str:
        self._count += 1
        return f"{self.user} {self._number} {self._count}: {self._random.choice(self._texts)}"

    def _old(self, names: dict[str, Any]) -> str | None:
        return self._random.choice(list(names)) if names and self._random.random() < OVERWRITES else None

    def _any(self, names: dict[str, Any]) -> str | None:
        return self._random.choice(list(names)) if names else None

    async def _call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        return await self.client.call(tool, arguments)

    async def _vault(self) -> str:
        content = self._content()
        key = self._old(self.kept.vault) or f"{self._number}/{self._count}"
        await self._call("commit_memory", scope="vault", key=key, content=content, tags=["soak"])
        self.kept.vault[key] = content
        self.kept.acknowledged["vault"] += 1
        return "commit_memory"

    async def _note(self) -> str:
        content, old = self._content(), self._old(self.kept.notes)
        if old:
            note = await self._call("memory_update", id=old, content=content)
        else:
            note = await self._call("memory_create", content=content, title=content.partition(":")[0])
        self.kept.notes[note["id"]] = content
        self.kept.acknowledged["notes"] += 1
        return "memory_update" if old else "memory_create"

    async def _memory(self) -> str:
        content, old = self._content(), self._old(self.kept.stores)
        path = old or f"c{self._number}/{self._count}"
        tool = "update_memory" if old else "add_memory"
        await self._call(tool, store=STORE, path=path, content=content)
        self.kept.stores[path] = content
        self.kept.acknowledged["stores"] += 1
        return tool

    async def _entity(self) -> str:
        content, old = self._content(), self._old(self.kept.graph)
        name = old or f"{self._number}-{self._count}"
        if old:
            added = [{"entity_name": name, "contents": [content]}]
            await self._call("add_observations", project=PROJECT, observations=added)
        else:
            made = [{"name": name, "entity_type": "thing", "observations": [content]}]
            await self._call("create_entities", project=PROJECT, entities=made)
        self.kept.graph.setdefault(name, []).append(content)
        self.kept.acknowledged["graph"] += 1
        return "add_observations" if old else "create_entities"

    async def _rows(self) -> str:
        rows = {f"{self._number}-{self._count}-{row}": self._content() for row in range(ROWS)}
        data = [{"id": id_, "client": self._number, "content": content} for id_, content in rows.items()]
        await self._call("portal_write", portalUri=PORTAL, table=TABLE, data=data)
        self.kept.portals |= rows
        self.kept.acknowledged["portals"] += 1
        return "portal_write"

    async def search_everything(self) -> None:
        """Once in each family."""
        question = self._random.choice(self._questions)
        await self._call("search_memories", query=question, scope="vault")
        await self._call("memory_search", query=question)
        await self._call("list_memories", store=STORE)
        await self._call("search_nodes", project=PROJECT, query=question.split()[0])
        await self._call("portal_query", portalUri=PORTAL, sql=f"SELECT count() AS rows FROM {TABLE}")

    async def _look_in_vault(self) -> str:
        if key := self._old(self.kept.vault):
            await self.check_vault(key)
            return "memory://vault/{key}"
        await self._call("search_memories", query=self._random.choice(self._questions), scope="vault")
        return "search_memories"

    async def _look_at_notes(self) -> str:
        chance = self._random.random()
        if chance < 0.4 and (id_ := self._any(self.kept.notes)):
            await self.check_note(id_)
            return "memory_get"
        if chance < 0.6:
            await self._call("memory_recent")
            return "memory_recent"
        await self._call("memory_search", query=self._random.choice(self._questions))
        return "memory_search"

    async def _look_in_store(self) -> str:
        chance = self._random.random()
        if chance < 0.6 and (path := self._any(self.kept.stores)):
            await self.check_memory(path)
            return "get_memory"
        if chance < 0.8:
            await self._call("list_memories", store=STORE)
            return "list_memories"
        await self._call("cortex_get_recent_memories", store=STORE)
        return "cortex_get_recent_memories"

    async def _look_at_graph(self) -> str:
        if self._random.random() < 0.5 and (name := self._any(self.kept.graph)):
            await self.check_entities([name])
            return "open_nodes"
        words = self._random.choice(self._questions).rstrip("?").split()
        await self._call("search_nodes", project=PROJECT, query=words[-1])
        return "search_nodes"

    async def _sum_up(self) -> str:
        sql = f"SELECT count() AS rows, uniqExact(id) AS ids FROM {TABLE} WHERE client = {{client:Int64}}"
        found = await self._call("portal_query", portalUri=PORTAL, sql=sql, parameters={"client": self._number})
        _same(found["rows"], [{"rows": len(self.kept.portals), "ids": len(self.kept.portals)}], "rows of a portal")
        return "portal_query"

    async def check_vault(self, key: str) -> None:
        found = await self.client.read(f"memory://vault/{quote(key, safe='')}")
        _same(found["content"], self.kept.vault[key], key)

    async def check_note(self, id_: str) -> None:
        _same((await self._call("memory_get", id=id_))["content"], self.kept.notes[id_], id_)

    async def check_memory(self, path: str) -> None:
        _same((await self._call("get_memory", store=STORE, path=path))["content"], self.kept.stores[path], path)

    async def check_entities(self, names: list[str]) -> None:
        found = await self._call("open_nodes", project=PROJECT, names=names)
        observations = {entity["name"]: entity["observations"] for entity in found["entities"]}
        for name in names:
            _same(observations.get(name), self.kept.graph[name], name)

    async def check_rows(self, ids: list[str]) -> None:
        sql = f"SELECT id, content FROM {TABLE} WHERE id IN {{ids:Array(String)}} AND client = {{client:Int64}}"
        parameters = {"ids": ids, "client": self._number}
        found = await self._call("portal_query", portalUri=PORTAL, sql=sql, parameters=parameters)
        rows = sorted((row["id"], row["content"]) for row in found["rows"])
        _same(rows, sorted((id_, self.kept.portals[id_]) for id_ in ids), "rows of a portal")

    def checks(self) -> Iterator[tuple[str, int, Callable[[], Awaitable[None]]]]:
        """Everything that must be there: of which family, how many things, and how to look."""
        kept = self.kept
        for key in kept.vault:
            yield "vault", 1, lambda key=key: self.check_vault(key)  # type: ignore[misc]
        for id_ in kept.notes:
            yield "notes", 1, lambda id_=id_: self.check_note(id_)  # type: ignore[misc]
        for path in kept.stores:
            yield "stores", 1, lambda path=path: self.check_memory(path)  # type: ignore[misc]
        for names in _parts(list(kept.graph)):
            yield "graph", len(names), lambda names=names: self.check_entities(names)  # type: ignore[misc]
        for ids in _parts(list(kept.portals)):
            yield "portals", len(ids), lambda ids=ids: self.check_rows(ids)  # type: ignore[misc]


def _parts(names: list[str]) -> Iterator[list[str]]:
    for start in range(0, len(names), READ_BATCH_SIZE):
        yield names[start : start + READ_BATCH_SIZE]


def _same(found: object, wanted: object, what: str) -> None:
    if found != wanted:
        raise Wrong(f"{what}: {str(found)[:200]!r} instead of {str(wanted)[:200]!r}")
