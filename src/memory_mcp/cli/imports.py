"""memory-mcp import FORMAT PATH."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from memory_mcp import settings
from memory_mcp.caller import LOCAL_USER
from memory_mcp.cli.common import AsJson, DataDir, caller_for, parse_path, report_as_usage_error, use_app
from memory_mcp.cli.memories import lacks_model, waiting_text
from memory_mcp.cli.output import counted, print_json, print_text
from memory_mcp.cli.progress_bar import show_progress
from memory_mcp.importers import FORMATS, ImportPlan, Report
from memory_mcp.importers.model import OWN_FORMAT
from memory_mcp.importers.operations import DEFAULT_DESTINATIONS
from memory_mcp.maintenance.zip_file import unpack_export

DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be imported, and write nothing.")]

INTO = {"notes": "--namespace", "stores": "--store", "graph": "--project"}
"""For each family, the option that names the destination."""

CONTINUE_HINT = "Run the same command again: it adds only the rest."
STOPPED = f"Memories that were written by then are stored. {CONTINUE_HINT}"
DRY = "This was a dry run: nothing was written."
MAX_PROBLEMS_SHOWN = 20  # --json has more
EXAMPLES = (
    "Examples: memory-mcp import server-memory memory.jsonl --dry-run · memory-mcp import basic-memory "
    "~/basic-memory --store work · memory-mcp import claude data-2026-11-15.zip --namespace personal"
)


def import_memories(
    format_: Annotated[str, typer.Argument(metavar="FORMAT", help=f"One of: {', '.join((OWN_FORMAT, *FORMATS))}.")],
    path: Annotated[
        Path,
        typer.Argument(parser=parse_path, metavar="PATH", help="The file, folder or zip that the other tool wrote."),
    ],
    namespace: Annotated[str | None, typer.Option("--namespace", help="For notes.", show_default="default")] = None,
    store: Annotated[str | None, typer.Option("--store", help="For files.", show_default="named FORMAT")] = None,
    project: Annotated[str | None, typer.Option("--project", help="For a graph.", show_default="memory")] = None,
    user: Annotated[str, typer.Option(help="The user to import for.")] = LOCAL_USER,
    dry_run: DryRun = False,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Import the memories of another tool, or an export of `memory-mcp export`. A second import adds only new ones;
    PATH itself is never changed."""
    given = {"--namespace": namespace, "--store": store, "--project": project}
    known = next((name for name in FORMATS if name == format_), None)
    if known is None and format_ != OWN_FORMAT:
        raise typer.BadParameter(f"{format_!r} is not a format. Use any of: {', '.join((OWN_FORMAT, *FORMATS))}.")
    option = INTO[FORMATS[known]] if known else "no such option"
    if strange := [name for name, value in given.items() if value is not None and name != option]:
        raise typer.BadParameter(f"{strange[0]} has no meaning for {format_}, which takes {option}.")
    if known is None:
        import_own_export(path, data_dir, dry_run=dry_run, as_json=as_json, user=user)
    else:
        into = given[option] or DEFAULT_DESTINATIONS[FORMATS[known]] or known
        run(ImportPlan(known, path, into, dry_run), data_dir, as_json=as_json, user=user)


def import_own_export(
    path: Path, data_dir: Path | None, *, dry_run: bool, as_json: bool, user: str = LOCAL_USER
) -> None:
    """Import a folder that `memory-mcp export` wrote, or a zip of it. Exits with 1 if anything was left out."""
    with (
        _directories(dry_run, data_dir) as (chosen, new_files_dir),
        use_app(chosen, new_files_dir, creates=True) as (app, local),
        show_progress(as_json, if_interrupted=DRY if dry_run else STOPPED) as report_progress,
        unpack_export(path) as folder,
    ):
        plan = ImportPlan(OWN_FORMAT, folder, "", dry_run, original_name=path.name)
        result = app.own_exports.import_folder(caller_for(app, local, user), plan, report_progress)
    if as_json:
        print_json({"format": OWN_FORMAT, "dry_run": dry_run, **result.shown()})
    else:
        for counts, words in ((result.new, "New"), (result.known, "Here already")):
            print_text(f"{words}: {', '.join(counted(count, name) for name, count in counts.items()) or 'nothing'}.")
        for one in result.left_out[:MAX_PROBLEMS_SHOWN]:
            print_text(f"  {one.path}: {one.why}", err=True)
        if len(result.left_out) > MAX_PROBLEMS_SHOWN:
            print_text(f"  … and {len(result.left_out) - MAX_PROBLEMS_SHOWN:,} more; --json has all.", err=True)
        if dry_run:
            print_text(DRY)
    if result.left_out:
        raise typer.Exit(1)


def run(plan: ImportPlan, data_dir: Path | None, *, as_json: bool, user: str = LOCAL_USER) -> None:
    """Import and report. Exits with 1 if anything was refused."""
    report = plan.new_report()
    with (
        _directories(plan.dry_run, data_dir) as (chosen, new_files_dir),
        use_app(chosen, new_files_dir, creates=True) as (app, local),
        show_progress(as_json, if_interrupted=partial(_advice_on_import, report)) as report_progress,
    ):
        caller = caller_for(app, local, user)
        app.importers.run(caller, plan, report_progress, report)
        limits = "" if plan.dry_run or lacks_model(app, caller) else waiting_text(app, caller)
    if as_json:
        print_json(report.as_json())
    else:
        _show(report)
        if limits:
            print_text(limits, err=True)
    if report.refused:
        raise typer.Exit(1)


def _advice_on_import(report: Report) -> str:
    """With the number of memories that are stored. Of a graph it is known only at the end."""
    if report.dry_run:
        return DRY
    if report.family == "graph":
        return STOPPED
    stored = "1 memory is" if report.imported == 1 else f"{report.imported:,} memories are"
    return f"{stored} stored. {CONTINUE_HINT}"


@contextmanager
def _directories(dry_run: bool, data_dir: Path | None) -> Iterator[tuple[Path | None, Path | None]]:
    """The data directory, and the folder for missing files if it is another one. A dry run creates them in a temporary
    folder, and uses that instead of a data directory that is missing or empty."""
    with report_as_usage_error():
        folder = settings.load({"data_dir": data_dir}).settings.data_dir
    if not dry_run:
        yield data_dir, None
        return
    is_used = folder.exists() and any(folder.iterdir())
    with tempfile.TemporaryDirectory(prefix="memory-mcp-") as empty:
        yield data_dir if is_used else Path(empty), Path(empty) if is_used else None


def _show(report: Report) -> None:
    imported = "would be imported" if report.dry_run else "imported"
    kind = {"notes": "namespace", "stores": "store", "graph": "project"}[report.family]
    print_text(f"{report.read} read; {report.imported} {imported} into the {kind} {report.into!r}.")
    if report.details:
        print_text("New: " + ", ".join(counted(count, name) for name, count in report.details.items()) + ".")
    for count, words in (
        (report.updated, "were changed in the other tool and are updated."),
        (report.skipped, "were imported before."),
        (report.kept, "differ here, and were not changed."),
        (report.left_out, "were left out."),
        (report.refused, "were refused."),
    ):
        if count:
            print_text(f"{count} {words}")
    for problem in report.problems[:MAX_PROBLEMS_SHOWN]:
        print_text(f"  {problem.where}: {problem.why}", err=problem.outcome == "refused")
    if len(report.problems) > MAX_PROBLEMS_SHOWN:
        print_text("  … and more; --json has up to 1,000.")
    if report.dry_run:
        print_text(DRY)
