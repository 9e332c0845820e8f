"""memory-mcp migrate --to and --to-dir: between files and PostgreSQL."""

from collections.abc import Iterable
from pathlib import Path

import typer

from memory_mcp.app import data_layout, open_engine_move
from memory_mcp.cli.common import chosen_settings, report_as_usage_error
from memory_mcp.cli.output import counted, print_json, print_text
from memory_mcp.cli.progress_bar import show_progress
from memory_mcp.engines.files.data_dir_lock import exclusive
from memory_mcp.engines.files.data_directory import require_no_other_files
from memory_mcp.maintenance.moves import MoveResult
from memory_mcp.relay import link
from memory_mcp.relay.server_socket import ServerSocket
from memory_mcp.settings import Settings

MOVE_STOPPED = "Each file is moved whole or not at all. Run the same command again to continue."
LOCK_TIMEOUT_S = 5.0  # a command may be about to finish
STAYS = "Stores and portals stay in the data directory. The files that were moved are still there, too."


def move_between_engines(
    data_dir: Path | None, database_url: str | None, to: str | None, to_dir: Path | None, *, as_json: bool
) -> None:
    if to is not None and to_dir is not None:
        raise typer.BadParameter("--to and --to-dir are opposite directions. Give one of them.")
    if to is not None:
        _move_to_postgres(chosen_settings(data_dir, database_url=to), as_json=as_json)
        return
    chosen = chosen_settings(data_dir, database_url=database_url, creates=True)
    if not chosen.database_url or to_dir is None:
        raise typer.BadParameter("--to-dir moves out of PostgreSQL. Say with --database-url which.")
    with report_as_usage_error():
        require_no_other_files(to_dir)
    _move_to_files(chosen, to_dir, as_json=as_json)


def _move_to_postgres(chosen: Settings, *, as_json: bool) -> None:
    files = chosen.model_copy(update={"database_url": None})
    link.request_running(ServerSocket(str(files.data_dir)), "stop_if_idle")
    with (
        exclusive(files.data_dir, LOCK_TIMEOUT_S),
        open_engine_move(chosen) as moves,
        show_progress(as_json, if_interrupted=MOVE_STOPPED) as report_progress,
    ):
        done = list(moves.from_files(data_layout(files), report_progress))
    _show(done, as_json=as_json)
    if not as_json:
        print_text(STAYS)


def _move_to_files(chosen: Settings, folder: Path, *, as_json: bool) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (
        exclusive(folder, LOCK_TIMEOUT_S),
        open_engine_move(chosen) as moves,
        show_progress(as_json, if_interrupted=MOVE_STOPPED) as report_progress,
    ):
        done = list(moves.to_files(folder, report_progress))
    _show(done, as_json=as_json)


def _show(done: Iterable[MoveResult], *, as_json: bool) -> None:
    results = list(done)
    if as_json:
        print_json({"moved": [vars(one) for one in results]})
        return
    for one in results:
        print_text(f"{one.name}: {counted(one.rows, 'rows')} {one.outcome}")
    print_text(f"{counted(sum(one.rows for one in results), 'rows')}, each compared after it was written.")
