"""What was written under a fault, what is there afterwards, and whether errors were plain words."""

import json
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw
from tests import processes

from memory_mcp import settings
from memory_mcp.app import open_app
from memory_mcp.caller import ALL_SCOPES, LOCAL_USER, Caller

REPAIRABLE = ("lock", "leftover", "cache", "journal")  # they hold no memories: the doctor names and repairs them
FAMILIES = ("vault", "notes", "stores", "graph", "portals")
PORTAL = "mem://chaos/one"
BUSY_TIMEOUT_MS = 30_000
ME = Caller(LOCAL_USER, ALL_SCOPES, frozenset(FAMILIES))
# Words that only our code, a library or the operating system would say.
_INTERNAL = re.compile(r"Traceback|apsw|sqlite3\.|\b[A-Z]\w+Error\b|Errno|0x[0-9a-f]{6}|\.py\b|NoneType")


def call_for(family: str, text: str) -> tuple[str, dict[str, Any]]:
    """The tool call that stores a text as one memory of a family."""
    match family:
        case "vault":
            return "commit_memory", {"scope": "vault", "key": text, "content": text}
        case "notes":
            return "memory_create", {"content": text, "namespace": "chaos"}
        case "stores":
            return "add_memory", {"store": "chaos", "path": f"kept/{text}", "content": text}
        case "graph":
            return "create_entities", {"project": "chaos", "entities": [{"name": text, "entity_type": "chaos"}]}
        case _:
            return "portal_write", {"portalUri": PORTAL, "table": "kept", "data": [{"text": text}]}


PREPARATION = {
    "graph": ("create_project", {"name": "chaos"}),
    "portals": call_for("portals", "first"),
    "stores": call_for("stores", "first"),
}


class Refused(Exception):
    """The server said that nothing was stored, and why."""


class Unsure(Exception):
    """The server said, or its end of the connection implies, that it may have been stored."""


Call = Callable[[str, dict[str, Any]], Any]


def translate(answer: dict[str, Any]) -> dict[str, Any]:
    """The result of a JSON-RPC answer to a tool call. Raises Refused or Unsure."""
    result = answer.get("result", {})
    if "error" not in answer and not result.get("isError"):
        found: dict[str, Any] = result.get("structuredContent", result)
        return found
    error = answer.get("error") or result
    text = json.dumps(error, ensure_ascii=False)
    if '"may_have_happened": true' in text:
        raise Unsure(text)
    raise Refused(text)


@dataclass
class Ledger:
    """Thread-safe. One for each fault that is tried."""

    name: str
    attempts: int = 0  # how often the fault was caused
    acknowledged: set[str] = field(default_factory=set)
    unsure: set[str] = field(default_factory=set)
    refused: dict[str, str] = field(default_factory=dict)  # the error by text: none of these may be there
    failures: list[str] = field(default_factory=list)  # broken promises, each as a sentence
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def write(self, call: Call, family: str, text: str) -> bool:
        """Whether it was acknowledged. What the server refuses is counted and must be in plain words."""
        try:
            call(*call_for(family, text))
        except Refused as exc:
            with self._lock:
                self.refused[text] = str(exc)
            self.check_words(family, str(exc))
            return False
        except Unsure:
            with self._lock:
                self.unsure.add(text)
            return False
        with self._lock:
            self.acknowledged.add(text)
        return True

    def read(self, call: Call, tool: str, arguments: dict[str, Any]) -> str:
        """The answer, or the error, which must be in plain words."""
        try:
            return json.dumps(call(tool, arguments), ensure_ascii=False)
        except (Refused, Unsure) as exc:
            self.check_words(tool, str(exc))
            return str(exc)

    def check_words(self, where: str, message: str) -> None:
        if found := _INTERNAL.search(message):
            self.fail(f"{where}: an error with words of the inside ({found[0]}): {message[:300]}")

    def fail(self, sentence: str) -> None:
        with self._lock:
            self.failures.append(sentence)

    def merge(self, other: "Ledger") -> None:
        """Add what another one has recorded."""
        self.acknowledged |= other.acknowledged
        self.unsure |= other.unsure
        self.refused |= other.refused
        self.failures += other.failures

    def check(self, data_dir: Path, *, doctor: bool = True) -> None:
        """Every acknowledged write is there once, no write was stored twice, and the doctor finds no problem."""
        self.compare(stored(data_dir))
        problems = [one for one in diagnose(data_dir) if one["check"] not in REPAIRABLE] if doctor else []
        if problems:
            self.fail(f"the doctor finds {problems[:3]}")
        if doctor and (left := diagnose(data_dir, "--repair")):
            self.fail(f"the doctor does not repair {left[:3]}")

    def compare(self, found: Counter[str]) -> None:
        """Every acknowledged write must be among what was found, none twice, and none that was refused."""
        for text in sorted(self.acknowledged - found.keys())[:20]:
            self.fail(f"lost: {text}")
        for text, count in found.items():
            if count > 1 and text in self.acknowledged | self.unsure:
                self.fail(f"stored {count} times: {text}")
        for text in sorted(self.refused.keys() & found.keys())[:20]:
            self.fail(f"stored although it was refused: {text}: {self.refused[text][:300]}")


def stored(data_dir: Path) -> Counter[str]:
    """How often each text is stored, by the files themselves; rows of portals by the engine."""
    found: Counter[str] = Counter()
    queries = {
        "memory.db": "SELECT content FROM vault_memories",
        "notes.db": "SELECT content FROM notes",
        "projects/*.db": "SELECT name FROM entities",
    }
    for pattern, query in queries.items():
        for path in data_dir.glob(pattern):
            connection = apsw.Connection(str(path))
            connection.set_busy_timeout(BUSY_TIMEOUT_MS)  # a server may still be recovering the file
            found.update(text for (text,) in connection.execute(query))
            connection.close()
    for path in (data_dir / "stores").rglob("*.md"):
        found[path.stem] += 1
    if (data_dir / "portals" / "chaos" / "one").exists():
        found.update(_portal_rows(data_dir))
    return found


def _portal_rows(data_dir: Path) -> Iterator[str]:
    with opened(data_dir) as app:
        offset, page = 0, 1000
        while True:
            sql = f"SELECT text FROM kept ORDER BY text LIMIT {page} OFFSET {offset}"
            rows = app.portals.query(ME, PORTAL, sql, {}).rows
            if not rows:
                return
            yield from (str(row["text"]) for row in rows)
            offset += len(rows)  # an answer may be cut to fewer rows than the page


@contextmanager
def opened(data_dir: Path, **more: Any) -> Iterator[Any]:
    """The product in this process."""
    chosen = {"data_dir": data_dir, "embedder": "none", "portal_engine_idle": 5, **more}
    with open_app(settings.load(chosen, environ={}).settings, serving=False) as app:
        yield app


def diagnose(data_dir: Path, *flags: str) -> list[dict[str, Any]]:
    """The problems that `memory-mcp doctor` finds and has not repaired."""
    done = processes.run("doctor", "--json", *flags, "--data-dir", data_dir, env=environment())
    findings = json.loads(done.stdout)["findings"]
    return [one for one in findings if one["state"] == "problem"]


def environment(**more: str) -> dict[str, str]:
    return processes.environment(MEMORY_MCP_EMBEDDER="none", MEMORY_MCP_PORTAL_ENGINE_IDLE="5", **more)
