"""What one run found out about one server."""

import json
import os
import re
import statistics
from dataclasses import asdict, dataclass, field
from pathlib import Path

from pydantic import TypeAdapter

from benchmarks.peers.facts import Form

MAX_LOAD_PER_PROCESSOR = 2.0


@dataclass(frozen=True)
class Spread:
    """A figure, with the least and the highest of its repeats."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, repeats: list[float]) -> "Spread":
        return cls.around(statistics.median(repeats), repeats)

    @classmethod
    def around(cls, value: float, repeats: list[float]) -> "Spread":
        return cls(value, min(repeats), max(repeats))


@dataclass(frozen=True)
class Kept:
    """Of writes that something went wrong beside."""

    sent: int
    acknowledged: int
    kept: int
    problem: str = ""

    @property
    def lost(self) -> int:
        return self.acknowledged - self.kept


@dataclass(frozen=True)
class Searches:
    """With one form of query."""

    hit_rate: float
    p50_s: Spread
    cpu_s: float


@dataclass(frozen=True)
class Writes:
    count: int
    refused: int
    p50_s: Spread
    cpu_s: float
    """Of each write, until nothing is computed in the background any more."""


@dataclass(frozen=True)
class Recall:
    """On LoCoMo, with ten hits for each question."""

    questions: int
    refused: int
    by_id: float | None
    by_text: float
    p50_s: float
    characters: float


@dataclass
class Result:
    """What is not measured stays None; then `problem` says why."""

    name: str
    version: str = ""
    measured_at: str = ""
    load: float = 0.0
    """The load average of the machine when the measurement began."""
    problem: str = ""
    tools: int | None = None
    tools_tokens: float | None = None
    start_s: Spread | None = None
    first_answer_s: Spread | None = None
    second_client_s: float | None = None
    writes: Writes | None = None
    searches: dict[Form, Searches] = field(default_factory=dict)
    memory_bytes: int | None = None
    disk_bytes: int | None = None
    two_clients: Kept | None = None
    killed: Kept | None = None
    recall: Recall | None = None

    @property
    def is_disturbed(self) -> bool:
        """Whether other work took so much of the machine that only CPU times can be compared."""
        return self.load > MAX_LOAD_PER_PROCESSOR * (os.cpu_count() or 1)

    @property
    def keeps_acknowledged(self) -> bool:
        """Whether nothing that it acknowledged was lost."""
        return all(kept is not None and kept.lost == 0 for kept in (self.two_clients, self.killed))


@dataclass(frozen=True)
class ResultFiles:
    """A file for each server, so that a run that was interrupted can be continued."""

    folder: Path
    writes: int

    def save(self, result: Result) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._path(result.name).write_text(json.dumps(asdict(result), indent=1), encoding="utf-8")

    def read(self, name: str) -> Result | None:
        """None if it was not measured with as many writes."""
        path = self._path(name)
        return TypeAdapter(Result).validate_json(path.read_bytes()) if path.is_file() else None

    def delete(self, name: str) -> None:
        self._path(name).unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        return self.folder / f"{re.sub(r'[^a-z]+', '-', name.lower())}-{self.writes}.json"
