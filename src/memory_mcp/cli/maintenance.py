"""memory-mcp backup, restore, doctor, export, migrate."""

import os
import shlex
import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from memory_mcp import settings
from memory_mcp.app import open_maintenance
from memory_mcp.caller import LOCAL_USER
from memory_mcp.cli.common import (
    AsJson,
    DatabaseUrl,
    DataDir,
    caller_for,
    parse_path,
    report_as_usage_error,
    require_data_dir,
    use_app,
    use_maintenance,
)
from memory_mcp.cli.engine_moves import move_between_engines
from memory_mcp.cli.output import console, counted, print_json, print_text
from memory_mcp.cli.progress_bar import show_progress
from memory_mcp.engines.files.data_dir_lock import RESTORING
from memory_mcp.engines.files.data_directory import require_no_other_files
from memory_mcp.engines.files.file_tree import LeftOut
from memory_mcp.errors import AppError
from memory_mcp.families.maintenance import RESTORE_HINT, Finding
from memory_mcp.families.registry import FAMILIES
from memory_mcp.maintenance.exports import Export
from memory_mcp.maintenance.model import Diagnosis
from memory_mcp.relay.link import LOG
from memory_mcp.system.terminal import wrap

NO_BACKUP = "No backup was written; an earlier one is unchanged. The same command starts again."
NO_EXPORT = "No folder was written. The same command starts again."
NOT_RESTORED = "Nothing was changed. The same command starts again."
RESTORE_UNFINISHED = "The backup is checked, and the next command or server that uses the data directory finishes it."
CHECK_STOPPED = "No repair is left half done. The same command starts again."
MIGRATION_STOPPED = "Each file is migrated or as it was. Run the same command again to continue."
COLOURS = {"notice": "cyan", "problem": "red", "repaired": "green"}


def backup(
    file: Annotated[Path, typer.Argument(help="The file to write; an earlier backup is replaced.", metavar="FILE")],
    data_dir: DataDir = None,
    database_url: DatabaseUrl = None,
    as_json: AsJson = False,
) -> None:
    """Write all data to one file (a zip). Servers may run meanwhile.

    It contains every write that was acknowledged before it began. Example: memory-mcp backup ~/memory.zip
    """
    with (
        use_maintenance(data_dir, database_url) as maintenance,
        show_progress(as_json, if_interrupted=NO_BACKUP) as report_progress,
    ):
        made = maintenance.backup.make(file, report_progress)
    if as_json:
        print_json({**vars(made), "left_out": [vars(one) for one in made.left_out]})
    else:
        print_text(f"{made.file}: {counted(made.files, 'files')}, {_size(made.bytes)}, as of {made.cut_at}.")
    _print_left_out(made.left_out)
    if made.left_out:
        raise typer.Exit(1)


def restore(
    file: Annotated[Path, typer.Argument(help="A file that `memory-mcp backup` wrote.", metavar="FILE")],
    data_dir: DataDir = None,
    database_url: DatabaseUrl = None,
    as_json: AsJson = False,
) -> None:
    """Replace all data with a backup, after checking every part of the backup.

    The replaced data is moved to another folder, not deleted; with --database-url it is written to a backup in the data
    directory. Refused while servers use the data.
    """
    with report_as_usage_error():
        chosen, former_vault = settings_for_restore({"data_dir": data_dir, "database_url": database_url})
        require_no_other_files(chosen.data_dir)
    with (
        open_maintenance(chosen, alone=True, former_vault=former_vault) as maintenance,
        show_progress(as_json, if_interrupted=partial(_advice_on_restore, chosen.data_dir)) as report_progress,
    ):
        done = maintenance.restore.run(file, report_progress)
    if as_json:
        print_json({**vars(done), "left_out": [vars(one) for one in done.left_out]})
        return
    restored = "The database" if chosen.database_url else done.data_dir
    print_text(f"{restored} is restored as of {done.cut_at}: {counted(done.files, 'files')}.")
    if done.aside:
        print_text(f"The replaced data is in {done.aside}. Delete it when you no longer need it.")
    for notice in done.notices:
        print_text(notice)
    if done.left_out:
        print_text("The backup does not contain these files:", err=True)
        _print_left_out(done.left_out)


def doctor(
    repair: Annotated[bool, typer.Option("--repair", help="Repair what is safe to repair.")] = False,
    data_dir: DataDir = None,
    database_url: DatabaseUrl = None,
    as_json: AsJson = False,
) -> None:
    """Check every database, index, file and setting; with --repair, repair what is safe.

    Exits with 0 if there are no problems or all are repaired, with 1 if problems are left. A notice, such as of a
    missing model, is no problem; with --json, `well` is true only if there is neither.
    """
    chosen, trouble = _settings(data_dir, database_url)
    if not chosen.database_url:
        require_data_dir(chosen.data_dir)
    with (
        open_maintenance(chosen) as maintenance,
        show_progress(as_json, if_interrupted=CHECK_STOPPED) as report_progress,
    ):
        found = maintenance.doctor.check(repair=repair, report_progress=report_progress)
    found = Diagnosis({"settings": 1, **found.checked}, (*trouble, *found.findings))
    if as_json:
        shown = [vars(one) for one in found.findings]
        log = str(chosen.data_dir / LOG)
        print_json({"well": found.is_well, "checked": found.checked, "findings": shown, "server_log": log})
    else:
        _show(found, chosen.data_dir, repair=repair)
        if (chosen.data_dir / LOG).exists():
            print_text(f"The log of servers in the background is {chosen.data_dir / LOG}")
    if found.problems:
        raise typer.Exit(1)


def migrate(
    to: Annotated[
        str | None,
        typer.Option("--to", help="Move everything to this PostgreSQL.", metavar="<url>", show_default=False),
    ] = None,
    to_dir: Annotated[
        Path | None,
        typer.Option(
            "--to-dir",
            parser=parse_path,
            help="Move everything from PostgreSQL to files in this folder.",
            metavar="<path>",
            show_default=False,
        ),
    ] = None,
    data_dir: DataDir = None,
    database_url: DatabaseUrl = None,
    as_json: AsJson = False,
) -> None:
    """Migrate every file to this version's schema now, instead of when it is first used.

    Each file is copied to backups/ before it is changed. With --to, the data of all users moves to PostgreSQL, and with
    --to-dir back: docs/postgres.md.
    """
    if to is not None or to_dir is not None:
        move_between_engines(data_dir, database_url, to, to_dir, as_json=as_json)
        return
    with (
        use_maintenance(data_dir, database_url) as maintenance,
        show_progress(as_json, if_interrupted=MIGRATION_STOPPED) as report_progress,
    ):
        done = maintenance.migration.run(report_progress)
    if as_json:
        print_json({"files": [vars(one) for one in done]})
    else:
        for one in done:
            print_text(f"{one.file}: {one.why or one.outcome}", err=one.outcome == "refused")
        if not done:
            print_text("There is nothing to migrate: no files yet.")
    if any(one.outcome == "refused" for one in done):
        raise typer.Exit(1)


def export(
    folder: Annotated[Path, typer.Argument(parser=parse_path, help="A new folder.", metavar="DIR")],
    user: Annotated[str, typer.Option(help="The user whose memory is exported.")] = LOCAL_USER,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Write all data of a user in open formats: markdown, JSON lines, Parquet, CSV.

    The folder's README.md explains the files.
    """
    with use_app(data_dir) as (app, local), show_progress(as_json, if_interrupted=NO_EXPORT) as report_progress:
        everything = replace(caller_for(app, local, user), families=frozenset(FAMILIES))
        done = Export(app.opened, everything).run(folder, report_progress)
    if as_json:
        print_json({**vars(done), "left_out": [vars(one) for one in done.left_out]})
    else:
        written = ", ".join(counted(count, what) for what, count in done.counts.items())
        print_text(f"{done.folder}: {written}.")
    _print_left_out(done.left_out)
    if done.left_out:
        raise typer.Exit(1)


def _advice_on_restore(data_dir: Path) -> str:
    return RESTORE_UNFINISHED if (data_dir / RESTORING).exists() else NOT_RESTORED


def _settings(data_dir: Path | None, database_url: str | None) -> tuple[settings.Settings, list[Finding]]:
    """The settings, without config.toml if it is invalid; then also a finding that says why."""
    flags = {"data_dir": data_dir, "database_url": database_url}
    try:
        return settings.load(flags).settings, []
    except AppError as exc:
        with report_as_usage_error():
            chosen = settings.load(flags, config=False).settings
        return chosen, [Finding("settings", "config.toml", "problem", exc.message)]


def settings_for_restore(
    flags: Mapping[str, Any], environ: Mapping[str, str] = os.environ
) -> tuple[settings.Settings, Path]:
    """The settings, and the path of the current vault file.

    config.toml is replaced with all other files: its db_path does not decide where the new vault file goes, and an
    invalid one does not prevent a restore.
    """
    without = settings.load(flags, environ, config=False).settings
    try:
        now = settings.load(flags, environ).settings
    except AppError:
        return without, without.vault_path
    return now.model_copy(update={"db_path": without.db_path}), now.vault_path


def _show(found: Diagnosis, data_dir: Path, *, repair: bool) -> None:
    out = console()
    for one in found.findings:
        line = f"{one.state:>8} {one.check}: {one.place}: {one.message.removesuffix(RESTORE_HINT).rstrip()}"
        text = Text(wrap(line, sys.stdout))
        text.stylize(COLOURS[one.state], 0, 8)
        out.print(text, soft_wrap=True)
    if any(one.message.endswith(RESTORE_HINT) for one in found.problems):
        _print_restore_steps(data_dir)
    checked = ", ".join(counted(count, what) for what, count in found.checked.items() if what != "settings")
    print_text(f"Checked the settings, {checked}.")
    repairable = sum(one.repairable for one in found.problems)
    if found.is_well:
        print_text("All problems are repaired." if found.findings else "No problems found.")
    elif not found.problems:
        print_text(f"No problems, but {len(found.notices)} to note: see above what is missing or was left out.")
    elif repairable and not repair:
        print_text(f"{_problems(found)}; `memory-mcp doctor --repair` repairs {repairable}.")
    else:
        print_text(f"{_problems(found)} left.")


def _problems(found: Diagnosis) -> str:
    return counted(len(found.problems), "problems")


def _print_restore_steps(data_dir: Path) -> None:
    folder = shlex.join(["--data-dir", str(data_dir)])
    print_text(f"With a backup: `memory-mcp restore FILE {folder}`")
    if (data_dir / "backups").is_dir():
        print_text(f"Copies from before migrations are in {data_dir / 'backups'}")
    print_text("Without one: stop all servers and move the damaged file to another folder. All other memories stay.")


def _print_left_out(left_out: tuple[LeftOut, ...]) -> None:
    for one in left_out:
        print_text(f"Left out: {one.path} ({one.why})", err=True)


def _size(count: int) -> str:
    return f"{count / 1_000_000:.1f} MB" if count >= 100_000 else f"{count} bytes"
