"""Connects a client and undoes it: first a plan that the user can check, then one atomic write."""

import difflib
import json
import re
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from memory_mcp.clients import entries, jsonc, toml
from memory_mcp.clients.jsonc import MalformedFile
from memory_mcp.clients.model import CLIENTS, NAME, ClientProgram, Entry, Machine, ServerEndpoint
from memory_mcp.clients.records import ConfigRecord, Records, digest, key_of
from memory_mcp.engines.files import atomic_write
from memory_mcp.engines.files.rooted_folder import Root
from memory_mcp.errors import Conflict, Invalid, Unavailable

BOM = "\ufeff"
_KEY = re.compile(r"(mmcp_[0-9A-Za-z]{8})[0-9A-Za-z_-]{20,}")


class Editor(Protocol):
    """A format whose texts are changed in place: `jsonc` and `toml`."""

    def value(self, text: str) -> dict[str, Any]: ...
    def put(self, text: str, path: tuple[str, ...], new: Any) -> str: ...
    def remove(self, text: str, path: tuple[str, ...]) -> str: ...


@dataclass(frozen=True)
class ConfigPlan:
    """The planned change of one file."""

    client: ClientProgram
    name: str
    file: Path  # as the client names it
    target: Path  # with symlinks resolved
    before: bytes | None
    after: bytes | None  # None: the file is deleted
    key: str
    record: ConfigRecord | None  # to be saved; None: nothing is left to undo
    is_undo: bool = False
    folders: tuple[str, ...] = ()  # created by us, to be deleted with the file

    @property
    def is_change(self) -> bool:
        return self.before != self.after

    def diff(self) -> list[str]:
        """As `diff -u` prints it, with our keys cut short."""
        former, new = (
            [] if data is None else data.decode("utf-8-sig").splitlines() for data in (self.before, self.after)
        )
        was, becomes = ("(no file)" if data is None else str(self.file) for data in (self.before, self.after))
        return [_KEY.sub(r"\1…", line) for line in difflib.unified_diff(former, new, was, becomes, lineterm="")]


@dataclass(frozen=True)
class ClientStatus:
    """Whether one client is installed and connected."""

    client: ClientProgram
    file: Path
    project_file: Path | None
    is_installed: bool
    names: tuple[str, ...]  # of our entries in its own file
    project_names: tuple[str, ...]
    problem: str | None


@dataclass(frozen=True)
class _ConfigFile:
    """A client's file as it was read."""

    client: ClientProgram
    file: Path
    target: Path
    data: bytes | None
    text: str

    @property
    def editor(self) -> Editor:
        return toml if self.file.suffix == ".toml" else jsonc

    @property
    def servers(self) -> dict[str, Any]:
        servers = self.editor.value(self.text).get(self.client.section, {})
        if not isinstance(servers, dict):
            raise MalformedFile(f"{self.client.section} should hold servers by their names")
        return servers

    def encoded(self, text: str) -> bytes:
        return ((BOM if (self.data or b"").startswith(BOM.encode()) else "") + text).encode()


class ClientConfigurations:
    def __init__(self, machine: Machine, folder: Path) -> None:
        """`folder` holds the records for undoing."""
        self._machine = machine
        self._records = Records(folder)

    def all(self) -> list[ClientStatus]:
        return [self._status(client) for client in CLIENTS.values()]

    def plan(
        self,
        client: ClientProgram,
        endpoint: ServerEndpoint,
        name: str = NAME,
        *,
        in_project: bool = False,
        replacing: bool = False,
    ) -> ConfigPlan:
        """Plan to add our entry to a client's configuration. Nothing is written yet.

        Raises Conflict if another server has the name, unless `replacing`; Invalid for a malformed file.
        """
        entry = client.entry(endpoint, self._machine.which("npx") or "npx")
        file = self._file(client, in_project)
        with report_problems(client, name, entry, file):
            return self._plan(_read(client, file), name, entry, replacing=replacing)

    def plan_undo(self, client: ClientProgram, name: str = NAME, *, in_project: bool = False) -> ConfigPlan:
        """Plan to restore the entry from before ours, and keep later changes of the file. Nothing is written yet.

        The plan has no change if no entry has the name. Raises Conflict if the entry of that name is not ours.
        """
        file = self._file(client, in_project)
        with report_problems(client, name, None, file):
            return self._plan_undo(_read(client, file), name)

    def apply(self, plan: ConfigPlan) -> Path | None:
        """Write the file atomically. Returns the path of the copy of the former file; None if there was none.

        Raises Conflict if the file was changed since it was planned.
        """
        try:
            with self._records.lock():
                earlier = self._records.find(plan.client.id, plan.target, plan.name)
                copy = self._save_for_undo(plan, earlier)
                with ExitStack() as if_it_fails:
                    if_it_fails.callback(self._set_record, plan.key, earlier)
                    _write(plan)
                    if_it_fails.pop_all()
                self._set_record(plan.key, plan.record)
                return copy
        except OSError as exc:
            raise Unavailable(
                f"{plan.file} cannot be written ({exc.strerror or exc}). Nothing was changed. Check its permissions."
            ) from exc

    def _save_for_undo(self, plan: ConfigPlan, earlier: ConfigRecord | None) -> Path | None:
        """Save all that undoing needs before the file changes. A second change keeps the first copy."""
        if plan.record is None:
            return self._records.save_copy(plan.key, plan.before, of="undo")
        self._records.save(plan.record)
        if earlier is not None and earlier.wrote == digest(plan.before or b""):
            return None
        return self._records.save_copy(plan.key, plan.before, of="connect")

    def _set_record(self, key: str, record: ConfigRecord | None) -> None:
        if record is None:
            self._records.delete(key)
        else:
            self._records.save(record)

    def _plan(self, found: _ConfigFile, name: str, entry: Entry, *, replacing: bool) -> ConfigPlan:
        servers = found.servers
        there: Any = servers.get(name)
        record = self._records.find(found.client.id, found.target, name)
        is_ours = isinstance(there, dict) and entries.is_ours(there, record)
        if there is not None and not is_ours and not replacing:
            raise Conflict(
                f"{found.file} has another server named {name} ({entries.summary(there)}). Choose another "
                "name with --name, or replace that server with --replace; --undo restores it."
            )
        wanted = entries.merge(there, entry) if is_ours else entry
        section = found.client.section
        text = found.text
        if not is_ours:
            text = found.editor.put(text, (section, name), wanted)
        elif there != wanted:
            text = _updated(found, name, there, wanted)
        servers_after = servers | {name: wanted}
        after = self._encode_checked(found, text, found.editor.value(found.text) | {section: servers_after})
        if there == wanted and found.data is not None:
            after = found.data
        new = ConfigRecord(
            client=found.client.id,
            file=str(found.target),
            name=name,
            entry=wanted,
            before=None if is_ours else there,
            made_file=found.data is None,
            made_section=section not in found.editor.value(found.text),
            made_folders=tuple(str(folder) for folder in missing_folders(found.target)),
            wrote=digest(after),
        )
        if record is not None and is_ours:  # undoing restores the entry from before the first time
            untouched = record.wrote is not None and record.wrote == digest(found.data or b"")
            new = replace(record, entry=wanted, wrote=digest(after) if untouched else None)
        return ConfigPlan(found.client, name, found.file, found.target, found.data, after, new.key, new)

    def _plan_undo(self, found: _ConfigFile, name: str) -> ConfigPlan:
        servers = found.servers
        there = servers.get(name)
        record = self._records.find(found.client.id, found.target, name)
        key = key_of(found.client.id, found.target, name)
        folders = record.made_folders if record else ()
        plan = ConfigPlan(
            found.client, name, found.file, found.target, found.data, found.data, key, None, True, folders
        )
        if there is None:
            return plan
        if not entries.is_ours(there, record):
            raise Conflict(f"{name} in {found.file} is not ours ({entries.summary(there)}). Nothing was changed.")
        if record is not None and record.wrote == digest(found.data or b""):
            former = self._records.former(key)
            if record.made_file or former is not None:
                return replace(plan, after=former)
        text, left = self._text_without(found, name, record)
        after = self._encode_checked(found, text, left)
        is_empty = record is not None and record.made_file and text.strip() in ("", "{}")
        return replace(plan, after=None if is_empty else after)

    @staticmethod
    def _text_without(found: _ConfigFile, name: str, record: ConfigRecord | None) -> tuple[str, dict[str, Any]]:
        """The text with our entry removed or the former one restored, and the value it must parse to."""
        section, servers, parsed = found.client.section, found.servers, found.editor.value(found.text)
        if record is not None and record.before is not None:
            text = found.editor.put(found.text, (section, name), record.before)
            return text, parsed | {section: servers | {name: record.before}}
        others = {other: entry for other, entry in servers.items() if other != name}
        if record is not None and record.made_section and not others:
            text = found.editor.remove(found.text, (section,))
            return text, {key: part for key, part in parsed.items() if key != section}
        return found.editor.remove(found.text, (section, name)), parsed | {section: others}

    @staticmethod
    def _encode_checked(found: _ConfigFile, text: str, wanted: dict[str, Any]) -> bytes:
        """The text as bytes, after a check that nothing but our entry has changed."""
        try:
            parsed = found.editor.value(text)
        except MalformedFile:
            parsed = None
        if found.client.section not in (parsed or {}) and not wanted.get(found.client.section):
            wanted = {key: part for key, part in wanted.items() if key != found.client.section}
        if parsed != wanted:
            raise MalformedFile("it is written in a way that cannot be changed without touching other parts of it")
        return found.encoded(text)

    def _file(self, client: ClientProgram, in_project: bool) -> Path:
        if not in_project:
            return client.file(self._machine)
        if client.project_file is None:
            raise Invalid(f"{client.title} has no configuration for one project. Leave out --project.")
        return self._machine.current_dir / client.project_file

    def _status(self, client: ClientProgram) -> ClientStatus:
        project_file = self._machine.current_dir / client.project_file if client.project_file else None
        file = client.file(self._machine)
        names, problem = self._names(client, file)
        project_names: tuple[str, ...] = ()
        project_problem = None
        if project_file is not None and project_file != file:  # in the home folder they are one
            project_names, project_problem = self._names(client, project_file)
        return ClientStatus(
            client=client,
            file=file,
            project_file=project_file,
            is_installed=client.seems_installed(self._machine),
            names=names,
            project_names=project_names,
            problem=problem or project_problem,
        )

    def _names(self, client: ClientProgram, file: Path) -> tuple[tuple[str, ...], str | None]:
        """The names of our entries, and a problem with the file or with an entry."""
        try:
            found = _read(client, file)
            ours = {
                name: entry
                for name, entry in found.servers.items()
                if entries.is_ours(entry, self._records.find(client.id, found.target, name))
            }
        except MalformedFile as exc:
            return (), f"{file} cannot be parsed: {exc}"
        except (OSError, RuntimeError) as exc:
            return (), f"{file} cannot be read ({getattr(exc, 'strerror', None) or exc})"
        gone = [entry["command"] for entry in ours.values() if entries.is_missing(entry.get("command"))]
        return tuple(ours), f"{gone[0]} is missing; connect again" if gone else None


def _read(client: ClientProgram, file: Path) -> _ConfigFile:
    target = file.resolve()
    try:
        data = target.read_bytes()
    except FileNotFoundError:
        return _ConfigFile(client, file, target, None, "")
    except IsADirectoryError as exc:
        raise MalformedFile("a folder has its name") from exc
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        raise MalformedFile("it is not UTF-8") from exc
    found = _ConfigFile(client, file, target, data, text)
    found.editor.value(text)
    return found


def _write(plan: ConfigPlan) -> None:
    changed = Conflict(f"{plan.file} was changed just now by another program. Nothing was written; try again.")
    if plan.before is not None:
        seen = plan.target.stat()
        if stat.S_IMODE(seen.st_mode) & 0o222 == 0:
            raise PermissionError(13, "it is read-only")
        if plan.target.read_bytes() != plan.before:
            raise changed
    plan.target.parent.mkdir(parents=True, exist_ok=True)
    with Root(plan.target.parent).entry([plan.target.name]) as entry:
        if plan.before is None:
            try:
                atomic_write.write_new(entry, plan.after or b"", mode=0o600)
            except FileExistsError as exc:
                raise changed from exc
        elif plan.after is None:
            entry.remove()
            for folder in plan.folders:
                with suppress(OSError):  # the folder has other files by now
                    Path(folder).rmdir()
        else:
            former = (seen.st_ino, seen.st_size, seen.st_mtime_ns)
            if not atomic_write.replace(
                entry, plan.after, lambda now: (now.st_ino, now.st_size, now.st_mtime_ns) == former
            ):
                raise changed


@contextmanager
def report_problems(client: ClientProgram, name: str, entry: Entry | None, file: Path) -> Iterator[None]:
    """Turn a problem with the file into an error that says what the user can do by hand."""
    what = f"remove {name} from it" if entry is None else "add this yourself"
    shown = "" if entry is None else "\n" + _snippet(client, name, entry, file)
    try:
        yield
    except MalformedFile as exc:
        raise Invalid(f"{file} cannot be parsed: {exc}. Nothing was changed. Correct it, or {what}.{shown}") from exc
    except (OSError, RuntimeError) as exc:  # RuntimeError: a loop of symlinks
        reason = getattr(exc, "strerror", None) or exc
        raise Unavailable(f"{file} cannot be read ({reason}). Nothing was changed. Check its permissions.") from exc


def _snippet(client: ClientProgram, name: str, entry: Entry, file: Path) -> str:
    if file.suffix == ".toml":
        return _KEY.sub(r"\1…", toml.put("", (client.section, name), entry))
    return _KEY.sub(r"\1…", json.dumps({client.section: {name: entry}}, indent=2, ensure_ascii=False))


def missing_folders(target: Path) -> list[Path]:
    """The folders to create for a file, the innermost first."""
    return [folder for folder in target.parents if not folder.exists()]


def _updated(found: _ConfigFile, name: str, there: Entry, wanted: Entry) -> str:
    """The text with an updated entry, changed field by field to keep the comments."""
    text, path = found.text, (found.client.section, name)
    for field in there:
        if field not in wanted:
            text = found.editor.remove(text, (*path, field))
    for field, part in wanted.items():
        if field not in there or there[field] != part:
            text = found.editor.put(text, (*path, field), part)
    return text
