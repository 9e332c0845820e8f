"""A sixth family, declared here alone, is served, searched, counted, exported, imported, checked and backed up."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from memory_mcp.app import App, open_app, open_maintenance
from memory_mcp.caller import ALL_SCOPES, LOCAL_USER, Caller, Scope
from memory_mcp.clock import new_id, precise_stamp
from memory_mcp.engines.sqlite.database_kind import DatabaseKind
from memory_mcp.engines.sqlite.migrations import Migration, Schema
from memory_mcp.errors import AppError, NotFound
from memory_mcp.families.context import Context
from memory_mcp.families.family import Arguments, Call, Family, LastWrite
from memory_mcp.families.maintenance import (
    ExportFolder,
    FamilyMaintenance,
    Finding,
    ImportFolder,
    Inspection,
    text_of,
    write_lines,
)
from memory_mcp.families.recall.counts import counts_by_family
from memory_mcp.families.recall.latest import latest
from memory_mcp.families.recall.references import open_reference
from memory_mcp.families.references import GroupSize, Opened, References
from memory_mcp.families.registry import STORAGE_FAMILIES, with_recall
from memory_mcp.families.texts import Group, Text
from memory_mcp.maintenance import Export, read_export
from memory_mcp.server.protocol import McpServer
from memory_mcp.services.access import Tenants
from memory_mcp.services.sessions import Connection, Session
from tests.conftest import Clock, connected
from tests.maintenance.sample_data import chosen

pytestmark = pytest.mark.anyio

TABLE = "CREATE TABLE days (day TEXT PRIMARY KEY, content TEXT NOT NULL, written_at TEXT NOT NULL) STRICT;"
DIARY_FILE = DatabaseKind("diary", Schema(0x4D4D4344, (Migration(1, TABLE),)), "diary.db")
FILE = "diary.jsonl"


@dataclass(frozen=True)
class Written:
    day: str


class Diary:
    """A text for each day."""

    def __init__(self, files: Tenants) -> None:
        self._files = files
        self.running = False

    def write(self, caller: Caller, day: str, content: str) -> bool:
        """True if the day had no text."""
        with self._files.database(caller.user).write() as tx:
            values = {"day": day, "content": content, "at": precise_stamp(tx.now)}
            is_new = tx.one("SELECT 1 FROM days WHERE day = :day", {"day": day}) is None
            tx.all("INSERT OR REPLACE INTO days VALUES (:day, :content, :at)", values)
        return is_new

    def days(self, caller: Caller) -> dict[str, tuple[str, str]]:
        with self._files.database(caller.user).read() as tx:
            return {str(day): (str(text), str(at)) for day, text, at in tx.all("SELECT * FROM days ORDER BY day")}

    def groups(self, caller: Caller) -> Iterable[Group]:
        def texts(days: Sequence[str]) -> Iterator[Text | None]:
            known = self.days(caller)
            return (Text(f"diary:{day}", day, known[day][0]) if day in known else None for day in days)

        return [Group("days", lambda: {day: at for day, (_, at) in self.days(caller).items()}, texts)]

    def last_written(self, caller: Caller, limit: int) -> list[LastWrite]:
        return [LastWrite(f"diary:{day}", day, at) for day, (_, at) in self.days(caller).items()][:limit]

    def start(self) -> None:
        self.running = True

    def stop(self) -> None:
        self.running = False


def read(call: Call[Diary], ref: str) -> Opened:
    day = ref.removeprefix("diary:")
    found = call.operations.days(call.caller).get(day)
    if found is None:
        raise NotFound("Nothing was written on this day.")
    return Opened(ref, day, found[0], {"content": found[0]}, updated_at=found[1])


def export(diary: Diary, target: ExportFolder) -> int:
    days = diary.days(target.caller).items()
    return write_lines(target.path / FILE, ({"day": day, "content": text} for day, (text, _) in days))


def import_days(diary: Diary, source: ImportFolder) -> None:
    for place, fields in source.lines(FILE):
        with source.one(place):
            day, content = text_of(fields, "day"), text_of(fields, "content")
            is_new = day not in diary.days(source.caller)
            if is_new and not source.dry_run:
                diary.write(source.caller, day, content)
            source.result.count("days", new=is_new)


def check(inspection: Inspection) -> Iterator[Finding]:
    for tenant in inspection.tenants:
        for file in tenant.files(DIARY_FILE):
            try:
                with inspection.open(file) as db, db.read() as tx:
                    days = [str(day) for (day,) in tx.all("SELECT day FROM days")]
            except AppError:  # found with the databases
                continue
            inspection.checked["days"] += len(days)
            wrong = [day for day in days if len(day) != len("2030-01-01")]
            yield from (Finding("diary", file.name, "problem", f"{day} is no day") for day in wrong)


diary = Family[Diary](
    name="diary",
    purpose="a text for each day",
    main_tools=(),
    errors="tool-result",
    uri_prefixes=(),
    open=lambda context: open_diary(context),
    databases=(DIARY_FILE,),
    maintenance=lambda: FamilyMaintenance(exports={"days": export}, imports={"days": import_days}, check=check),
    start=Diary.start,
    stop=Diary.stop,
    counts=lambda diary, caller: {"days": len(diary.days(caller))},
    last_writes=Diary.last_written,
    references=References("diary:DAY", ("diary:",), read, all_groups="diary:"),
    sizes=lambda diary, caller: [GroupSize("days", len(diary.days(caller)), "2030-01-01T00:00:00Z", "diary:")],
    groups=Diary.groups,
)
FAMILIES = with_recall((*STORAGE_FAMILIES, diary))
ME = Caller(LOCAL_USER, ALL_SCOPES, frozenset(FAMILIES))
HERE = Session(new_id(), Connection(LOCAL_USER, new_id()))


def open_diary(context: Context) -> Diary:
    return Diary(context.tenants(DIARY_FILE))


class DiaryWrite(Arguments):
    day: str
    content: str


@diary.tool(DiaryWrite, answers=Written, title="Write a day", needs=Scope.WRITE)
def diary_write(call: Call[Diary], arguments: DiaryWrite) -> Written:
    """Write down what happened."""
    call.operations.write(call.caller, arguments.day, arguments.content)
    return Written(arguments.day)


@pytest.fixture
def app(tmp_path: Path, clock: Clock) -> Iterator[App]:
    with open_app(chosen(tmp_path / "data"), clock=clock, families=FAMILIES) as opened:
        yield opened


@pytest.fixture
def written(app: App) -> Diary:
    own: Diary = app.opened["diary"].operations
    own.write(ME, "2030-01-01", "The lighthouse was lit again.")
    return own


def maintained(tmp_path: Path, *, alone: bool = False) -> Any:
    return open_maintenance(chosen(tmp_path / "data"), alone=alone, families=FAMILIES)


async def test_its_tool_and_its_texts_are_reached_by_clients(app: App) -> None:
    async with connected(McpServer(app)) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        await client.call_tool("diary_write", {"day": "2030-01-01", "content": "The lighthouse was lit again."})
        found = await client.call_tool("recall_memories", {"query": "lighthouse", "families": ["diary"]})

    assert "diary" in tools["recall_memories"].input_schema["properties"]["families"]["items"]["enum"]
    assert found.structured_content is not None
    [hit] = found.structured_content["hits"]
    assert (hit["family"], hit["ref"]) == ("diary", "diary:2030-01-01")


def test_home_and_references_know_it(app: App, written: Diary) -> None:
    assert counts_by_family(app.opened, ME)["diary"] == {"days": 1}
    [(family, write)] = latest(app.opened, ME, 10).writes
    assert (family, write.ref) == ("diary", "diary:2030-01-01")
    family, opened = open_reference(app.opened, ME, HERE, write.ref)
    assert (family, opened.title, opened.content) == ("diary", "2030-01-01", "The lighthouse was lit again.")
    [counted] = [one for one in app.recall.overview(ME).families if one.family == "diary"]
    assert (counted.count, [group.name for group in counted.groups]) == (1, ["days"])
    with pytest.raises(NotFound, match="diary:DAY"):
        open_reference(app.opened, ME, HERE, "nothing:here")


def test_it_starts_and_stops_with_the_server(app: App) -> None:
    own: Diary = app.opened["diary"].operations
    assert own.running
    app.stop()
    assert not own.running


def test_it_is_exported_and_imported(app: App, written: Diary, tmp_path: Path) -> None:
    assert Export(app.opened, ME).run(tmp_path / "out").counts["days"] == 1
    assert json.loads((tmp_path / "out" / FILE).read_text())["day"] == "2030-01-01"
    with open_app(chosen(tmp_path / "other"), serving=False, families=FAMILIES) as other:
        assert read_export(other.opened, ME, tmp_path / "out").new["days"] == 1
        assert read_export(other.opened, ME, tmp_path / "out").known["days"] == 1
        assert counts_by_family(other.opened, ME)["diary"] == {"days": 1}


def test_the_doctor_looks_at_its_file(app: App, written: Diary, tmp_path: Path) -> None:
    written.write(ME, "someday", "x")
    with maintained(tmp_path) as maintenance:
        found = maintenance.doctor.check(repair=False)
        assert (found.checked["days"], [one.message for one in found.problems]) == (2, ["someday is no day"])


def test_a_damaged_file_of_it_is_found(tmp_path: Path) -> None:
    with open_app(chosen(tmp_path / "data"), serving=False, families=FAMILIES) as app:
        app.opened["diary"].operations.write(ME, "2030-01-01", "x" * 50_000)
    file = tmp_path / "data" / "diary.db"
    content = bytearray(file.read_bytes())
    content[4096:8192] = b"\xff" * 4096
    file.write_bytes(content)
    with maintained(tmp_path) as maintenance:
        [problem] = maintenance.doctor.check(repair=False).problems
    assert (problem.check, problem.place) == ("database", "diary.db")


def test_a_backup_holds_its_file(tmp_path: Path) -> None:
    def open_again() -> Any:
        return open_app(chosen(tmp_path / "data"), serving=False, families=FAMILIES)

    with open_again() as app:
        app.opened["diary"].operations.write(ME, "2030-01-01", "kept")
    with maintained(tmp_path) as maintenance:
        assert maintenance.backup.make(tmp_path / "b.zip").left_out == ()
    with open_again() as app:
        app.opened["diary"].operations.write(ME, "2030-01-01", "changed")
    with maintained(tmp_path, alone=True) as maintenance:
        maintenance.restore.run(tmp_path / "b.zip")
    with open_again() as app:
        assert app.opened["diary"].operations.days(ME)["2030-01-01"][0] == "kept"
