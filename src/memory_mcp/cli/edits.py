"""memory-mcp list|edit|rm: the memories of every family, by their references."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from memory_mcp.app import App
from memory_mcp.caller import Caller
from memory_mcp.cli import conversations
from memory_mcp.cli.common import AsJson, DataDir, new_session, use_app
from memory_mcp.cli.interrupts import Interrupted
from memory_mcp.cli.output import confirm, console, print_json, print_row, print_text, title_and_text
from memory_mcp.conversations.deletion import is_ref
from memory_mcp.engines.files.data_directory import make_private_folder
from memory_mcp.engines.files.undo_copies import LIFETIME, UndoCopies
from memory_mcp.errors import AppError, Invalid, Unavailable
from memory_mcp.families.family import Call
from memory_mcp.families.recall.references import family_of, open_reference
from memory_mcp.families.references import Edits
from memory_mcp.families.registry import FAMILIES

LISTED = [name for name, family in FAMILIES.items() if family.last_writes]
EDITORS = ("sensible-editor", "nano", "vi", "notepad")  # where neither $VISUAL nor $EDITOR is set
MAX_TITLE_CHARS = 60

Ref = Annotated[str, typer.Argument(metavar="REF", help="As list and search print it.")]


def list_memories(
    family: Annotated[
        str | None,
        typer.Argument(
            metavar="FAMILY",
            help=f"One of {', '.join(LISTED)}; conversations, or given for what hooks gave to models.",
            show_default="all",
            autocompletion=lambda: [*LISTED, *conversations.LISTS],
        ),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="How many at most.")] = 20,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """List memories with their references, the one last written first.

    Example: memory-mcp list notes --limit 5
    """
    if family in conversations.LISTS:
        conversations.LISTS[family](limit, data_dir, as_json=as_json)
        return
    if family is not None and family not in LISTED:
        known = ", ".join([*LISTED, *conversations.LISTS])
        raise typer.BadParameter(f"{family!r} is not a family. Use one of: {known}.")
    with use_app(data_dir) as (app, caller):
        found = app.latest(caller, limit, family)
    if as_json:
        shown = [
            {"family": name, "ref": one.ref, "title": one.title, "updated_at": one.at} for name, one in found.writes
        ]
        print_json({"memories": shown, "incomplete": found.incomplete})
    else:
        _print_list([(one.at, one.ref, one.title) for _, one in found.writes])
    for name, why in found.incomplete.items():
        print_text(f"{name}: {why}", err=True)
    if found.incomplete:
        raise typer.Exit(1)


def _print_list(rows: list[tuple[str, str, str]]) -> None:
    out = console()
    if not rows:
        print_text("There is nothing here yet.")
    for at, ref, title in rows:
        short = title if len(title) <= MAX_TITLE_CHARS or not out.is_terminal else f"{title[: MAX_TITLE_CHARS - 1]}…"
        print_row(out, f"{at[:16].replace('T', ' '):<16}", ref, short)


@dataclass(frozen=True)
class _Target:
    """One thing that a person edits or deletes."""

    ref: str
    title: str
    content: str
    edits: Edits[Any]
    call: Call[Any]

    @property
    def text(self) -> str:
        """To edit."""
        return self.edits.text(self.call, self.ref) if self.edits.text else self.content


@contextmanager
def _use_target(data_dir: Path | None, ref: str) -> Iterator[tuple[_Target, App]]:
    with use_app(data_dir) as (app, caller):
        call, edits = _edits_of(app, caller, ref)
        if is_ref(ref):
            yield _Target(ref, ref, "everything that hooks wrote there", edits, call), app
            return
        _, opened = open_reference(app.opened, caller, call.session, ref)
        if not edits.is_one(opened.ref):
            raise Invalid(f"{ref} is a list.", people_hint=f"`memory-mcp show {shlex.quote(ref)}` shows its memories.")
        yield _Target(opened.ref, opened.title, opened.content, edits, call), app


def _edits_of(app: App, caller: Caller, ref: str) -> tuple[Call[Any], Edits[Any]]:
    if is_ref(ref):
        return Call(app.conversations, caller, new_session(caller)), app.conversations.edits
    one, references = family_of(app.opened, caller, ref)
    if references.edits is None:
        raise Invalid(
            f"{one.family.name} cannot be edited or deleted by this command.",
            people_hint="`memory-mcp open` shows tables, and `memory-mcp portal delete` deletes a portal.",
        )
    return Call(one.operations, caller, new_session(caller)), references.edits


def edit(ref: Ref, data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Edit a memory in your editor ($VISUAL or $EDITOR).

    The editor gets a temporary file. If the text cannot be stored, the file is kept, and its path is printed.
    Example: memory-mcp edit memory://vault/deploy-steps
    """
    command = _editor()
    with _use_target(data_dir, ref) as (target, app):
        ref, was, suffix = target.ref, target.text, target.edits.suffix
        folder = app.settings.data_dir / "edits"
        title = target.title
    file = _write_file(folder, title, suffix, was)
    failure = _run_editor(command, file)
    text = _read_file(file, was)
    if text == was:
        shutil.rmtree(file.parent)
        if failure:
            raise failure
        _report(ref, "unchanged", "Nothing was changed.", as_json=as_json)
        return
    if was.strip() and not text.strip():
        shutil.rmtree(file.parent)
        raise failure or Invalid(
            "The text is empty. Nothing was stored.", people_hint=f"`{_command('rm', ref, data_dir)}` deletes it."
        )
    try:
        if failure:
            raise failure
        with _use_target(data_dir, ref) as (target, _):
            target.edits.write(target.call, ref, was, text)
    except AppError as exc:
        exc.people_hint = f"{exc.people_hint} Your text is kept in {file}".strip()
        raise
    shutil.rmtree(file.parent)
    _report(ref, "edited", f"{ref} is changed.", as_json=as_json)


def _editor() -> list[str]:
    for variable in ("VISUAL", "EDITOR"):
        if command := shlex.split(os.environ.get(variable, "")):
            return command
    if not sys.stdin.isatty():
        raise Invalid("An editor needs a terminal. Set the variable EDITOR to a program that needs none.")
    if found := next(filter(None, map(shutil.which, EDITORS)), None):
        return [found]
    raise Invalid("There is no editor. Set the variable EDITOR, such as EDITOR=nano.")


def _write_file(folder: Path, title: str, suffix: str, text: str) -> Path:
    """A file for the editor, in a folder that only its owner can open."""
    name = re.sub(r"[^\w-]+", "-", title).strip("-")[:40] or "memory"
    try:
        make_private_folder(folder)
        file = Path(tempfile.mkdtemp(dir=folder)) / f"{name}{suffix}"
        fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(fd, "w", encoding="utf-8", newline="") as out:
            out.write(text)
    except OSError as exc:
        raise Unavailable(f"No file for the editor can be written in {folder} ({exc.strerror}).") from exc
    return file


def _run_editor(command: list[str], file: Path) -> AppError | None:
    """The reason why its file must not be stored, if there is one."""
    try:
        code = subprocess.run([*command, str(file)], check=False).returncode
    except Interrupted:
        return Unavailable("The editor was interrupted. Nothing was stored.")
    except OSError as exc:
        return Invalid(f"The editor {command[0]!r} cannot be started ({exc.strerror}). Set the variable EDITOR.")
    return Unavailable(f"The editor {command[0]!r} failed ({code}). Nothing was stored.") if code else None


def _read_file(file: Path, was: str) -> str:
    """The edited text. Editors end the last line; a text without such an end keeps it so."""
    try:
        text = file.read_bytes().decode()
    except FileNotFoundError:
        return was
    except UnicodeDecodeError:
        raise Invalid(f"The text is not UTF-8. It is kept in {file}") from None
    return text if was.endswith("\n") else text.removesuffix("\n").removesuffix("\r")


def rm(
    ref: Ref,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    for_good: Annotated[bool, typer.Option("--for-good", help="Keep no copy: it cannot be undone.")] = False,
    undo: Annotated[bool, typer.Option("--undo", help="Restore what was deleted last under this reference.")] = False,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Delete a memory, and print how to undo it. A note is archived; of other memories a copy is kept for 30 days.

    Example: memory-mcp rm stores:diary/days/may
    """
    if undo:
        _undo(ref, data_dir, as_json=as_json)
        return
    with _use_target(data_dir, ref) as (target, app):
        ref = target.ref
        if not yes:
            _confirm(target, for_good=for_good)
        copies = _copies(app)
        copies.delete_expired()
        target.edits.delete(target.call, ref, None if for_good else partial(copies.save, ref))
        if for_good:
            copies.delete(ref)
    command = None if for_good else _command("rm", ref, data_dir, "--undo")
    if as_json:
        print_json({"ref": ref, "deleted": True, "undo": command})
    elif command:
        print_text(f"Deleted {ref}. Undo it within {LIFETIME.days} days with: {command}")
    else:
        print_text(f"Deleted {ref} for good.")


def _undo(ref: str, data_dir: Path | None, *, as_json: bool) -> None:
    with use_app(data_dir) as (app, caller):
        call, edits = _edits_of(app, caller, ref)
        copies = _copies(app)
        lost = edits.restore(call, ref, copies.get(ref))
        copies.delete(ref)
    if lost:
        print_text(f"Not restored: {lost}.", err=True)
    _report(ref, "restored", f"{ref} is restored.", as_json=as_json)


def _command(verb: str, ref: str, data_dir: Path | None, *options: str) -> str:
    """To type."""
    folder = ["--data-dir", str(data_dir)] if data_dir else []
    return shlex.join(["memory-mcp", verb, *options, ref, *folder])


def _confirm(target: _Target, *, for_good: bool) -> None:
    """Raises Invalid without a terminal, and if the answer is no."""
    if not sys.stdin.isatty():
        raise Invalid("Deleting asks for confirmation. Give --yes to skip that.")
    print_text(": ".join(filter(None, title_and_text(target.title, target.content)))[:280])
    if not confirm(f"Delete {target.ref}{' for good' if for_good else ''}?"):
        raise Invalid("Nothing was deleted.")


def _copies(app: App) -> UndoCopies:
    return UndoCopies(app.settings.data_dir / "removed")


def _report(ref: str, what: str, message: str, *, as_json: bool) -> None:
    if as_json:
        print_json({"ref": ref, what: True})
    else:
        print_text(message)
