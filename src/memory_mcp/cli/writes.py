"""memory-mcp writes list|undo: what clients wrote, and undoing it as a group."""

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from memory_mcp.app import App
from memory_mcp.caller import LOCAL_USER, WriteSource
from memory_mcp.cli.common import AsJson, DataDir, caller_for, report_as_usage_error, use_app
from memory_mcp.cli.output import confirm, counted, print_json, print_table, print_text
from memory_mcp.cli.verbs import Verbs
from memory_mcp.errors import Invalid
from memory_mcp.families.registry import FAMILIES
from memory_mcp.families.write_review import (
    MAX_REPORTED_ITEMS,
    ReviewedGroup,
    ReviewedUndo,
    ReviewedWrite,
    ReviewQuery,
    UndoReport,
)
from memory_mcp.services.write_journal import WriteGroup, WriteQuery, Writer

MAX_TITLE_CHARS = 60
MAX_ITEMS_SHOWN = 50
SOURCES: tuple[str, ...] = get_args(WriteSource)
JOURNALED = [name for name, family in FAMILIES.items() if family.journals]

cli = Verbs(help="Who wrote what, and undoing it.", no_args_is_help=True)

Client = Annotated[str | None, typer.Option(help="Of the program with this name.", show_default="all")]
Key = Annotated[str | None, typer.Option(help="With this key: its id, name or beginning.", show_default="all")]
Source = Annotated[str | None, typer.Option(help=f"One of {', '.join(SOURCES)}.", show_default="all")]
Since = Annotated[str | None, typer.Option(help="From this time on: 2026-05-01 or yesterday.", show_default=False)]
Until = Annotated[str | None, typer.Option(help="Until this time.", show_default=False)]
Family = Annotated[str | None, typer.Option(help=f"One of {', '.join(JOURNALED)}.", show_default="all")]
User = Annotated[str, typer.Option(help="Whose memory.")]


@dataclass(frozen=True)
class _Wanted:
    """The options that choose writes."""

    client: str | None
    key: str | None
    source: str | None
    since: str | None
    until: str | None
    family: str | None

    def query(self, app: App, ids: Sequence[str] = (), undo_id: str | None = None) -> ReviewQuery:
        if self.family is not None and self.family not in JOURNALED:
            raise typer.BadParameter(f"{self.family!r} has no such list. Use one of: {', '.join(JOURNALED)}.")
        if self.source is not None and self.source not in SOURCES:
            raise typer.BadParameter(f"No write has the source {self.source!r}. Use one of: {', '.join(SOURCES)}.")
        with report_as_usage_error():
            span = app.notes.times.span(self.since, self.until, "--since", "--until")
        return ReviewQuery(
            WriteQuery(self.client, self.key, self.source, span.after, span.before, undo_id),
            None if self.family is None else frozenset({self.family}),
            frozenset(ids) if ids else None,
        )

    @property
    def is_everything(self) -> bool:
        return not any(vars(self).values())


@cli.command("list")
def list_writes(
    client: Client = None,
    key: Key = None,
    source: Source = None,
    since: Since = None,
    until: Until = None,
    family: Family = None,
    groups: Annotated[bool, typer.Option("--groups", help="One line for each writer and day.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="How many at most.")] = 50,
    user: User = LOCAL_USER,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """List what was written, by whom and when, the newest first.

    Example: memory-mcp writes list --client cursor --since yesterday
    """
    wanted = _Wanted(client, key, source, since, until, family)
    with use_app(data_dir) as (app, local):
        caller = caller_for(app, local, user)
        if groups:
            grouped = app.write_review.groups(caller, wanted.query(app))
            _show_groups(grouped.groups[:limit], grouped.incomplete, as_json=as_json)
        else:
            page = app.write_review.writes(caller, wanted.query(app), limit)
            _show_writes(page.writes, page.incomplete, as_json=as_json)


@cli.command("undo")
def undo_writes(
    ids: Annotated[
        list[str] | None, typer.Argument(metavar="ID", help="Single writes, as list --json has them.")
    ] = None,
    client: Client = None,
    key: Key = None,
    source: Source = None,
    since: Since = None,
    until: Until = None,
    family: Family = None,
    undo: Annotated[
        str | None, typer.Option(metavar="ID", help="Take an earlier undo back.", show_default=False)
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what it would do.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    user: User = LOCAL_USER,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Undo the writes that match all options, and print how to take that back.

    New memories and rows are deleted, changed and deleted memories get their former state. What others changed later is
    left alone.
    Example: memory-mcp writes undo --client cursor --since 2026-05-01
    """
    wanted = _Wanted(client, key, source, since, until, family)
    if wanted.is_everything and not ids and undo is None:
        raise typer.BadParameter("Choose writes: --client, --key, --source, --since, --until, --family, --undo or ids.")
    with use_app(data_dir) as (app, local):
        caller = caller_for(app, local, user)
        query = wanted.query(app, ids or (), undo)
        if dry_run or not yes:
            report = app.write_review.preview(caller, query)
            if not dry_run:
                _confirm(report)
        if not dry_run:
            report = app.write_review.undo(caller, query)
    back = _command(report, user, data_dir) if report.undo_id and not report.is_empty else None
    _show_report(report, back, as_json=as_json)


def _confirm(report: UndoReport) -> None:
    """Raises Invalid without a terminal, and if the answer is no."""
    if not sys.stdin.isatty():
        raise Invalid("An undo asks for confirmation. Give --yes to skip that, or --dry-run to see what it would do.")
    _print_items(report.items)
    if report.is_empty:
        raise Invalid("There is nothing to undo: no write matches, or all are undone already.")
    if not confirm(f"Delete {_deleted(report)} and restore {_restored(report)}?"):
        raise Invalid("Nothing was undone.")


def _deleted(report: UndoReport) -> str:
    return _memories_and_rows(report.deleted, report.rows_deleted)


def _restored(report: UndoReport) -> str:
    return _memories_and_rows(report.restored, report.rows_restored)


def _memories_and_rows(memories: int, rows: int) -> str:
    shown = [counted(memories, "memories")] if memories or not rows else []
    return " and ".join([*shown, *([counted(rows, "rows")] if rows else [])])


def _command(report: UndoReport, user: str, data_dir: Path | None) -> str:
    """Takes the undo back."""
    options = [*(["--user", user] if user != LOCAL_USER else []), *(["--data-dir", str(data_dir)] if data_dir else [])]
    return shlex.join(["memory-mcp", "writes", "undo", "--undo", str(report.undo_id), *options])


def _show_writes(writes: Sequence[ReviewedWrite], incomplete: dict[str, str], *, as_json: bool) -> None:
    if as_json:
        print_json({"writes": [_shown(one) for one in writes], "incomplete": incomplete})
    elif not writes:
        print_text("Nothing was written that matches.")
    else:
        rows = [
            (
                one.record.at[:19].replace("T", " "),
                str(one.record.writer),
                _action(one),
                _short(one.title),
                one.ref or "",
            )
            for one in writes
        ]
        print_table(("at", "by", "what", "title", "ref"), rows, last_optional=True)
    _end(incomplete)


def _action(one: ReviewedWrite) -> str:
    rows = "" if one.record.rows is None else f", {one.record.rows:+,} {'row' if abs(one.record.rows) == 1 else 'rows'}"
    return f"{one.record.action}{rows}{', undone' if one.is_undone else ''}"


def _shown(one: ReviewedWrite) -> dict[str, Any]:
    record = one.record
    return {
        "id": one.id,
        "family": one.family,
        "at": record.at,
        **vars(record.writer),
        "action": record.action,
        "rows": record.rows,
        "ref": one.ref,
        "title": one.title,
        "undone": one.is_undone,
        "undo_id": record.undo_id,
    }


def _show_groups(groups: Sequence[ReviewedGroup], incomplete: dict[str, str], *, as_json: bool) -> None:
    if as_json:
        print_json(
            {"groups": [{**vars(one.group), "families": one.families} for one in groups], "incomplete": incomplete}
        )
    elif not groups:
        print_text("Nothing was written that matches.")
    else:
        rows = [(one.group.day, str(_writer(one.group)), one.group.count, _counts(one)) for one in groups]
        print_table(("day", "by", "writes", "families"), rows, numbers=["writes"])
    _end(incomplete)


def _writer(group: WriteGroup) -> Writer:
    return Writer(group.source, group.client, group.key_id, group.key_name)


def _counts(group: ReviewedGroup) -> str:
    return ", ".join(f"{name} {count}" for name, count in group.families.items())


def _show_report(report: UndoReport, back: str | None, *, as_json: bool) -> None:
    if as_json:
        shown = [
            {
                **{"family": one.family, "ref": one.ref, "title": one.title},
                **{"outcome": one.undo.outcome, "rows": one.undo.rows, "why": one.undo.why},
            }
            for one in report.items
        ]
        print_json({**vars(report), "items": shown, "undo": back})
    elif report.is_empty and not report.left:
        print_text("Nothing to undo: no write matches, or all are undone already.")
    else:
        _print_items([one for one in report.items if one.undo.why or report.undo_id is None])
        will = "would be " if report.undo_id is None else ""
        left = f"{report.left} left alone."
        print_text(f"{_deleted(report)} {will}deleted, {_restored(report)} {will}restored, {left}")
        if back:
            print_text(f"Take it back with: {back}")
    _end(report.incomplete)


def _print_items(items: Sequence[ReviewedUndo]) -> None:
    for one in items[:MAX_ITEMS_SHOWN]:
        rows = "" if one.undo.rows is None else counted(one.undo.rows, "rows")
        more = "; ".join(filter(None, [rows, one.undo.why]))
        print_text(f"  {one.undo.outcome:<8}{one.family:<8}{_short(one.title)}{more and f': {more}'}")
    if len(items) > MAX_ITEMS_SHOWN:
        print_text(f"  … and more; --json has up to {MAX_REPORTED_ITEMS:,}.")


def _short(title: str) -> str:
    line = " ".join(title.split())
    return line if len(line) <= MAX_TITLE_CHARS else f"{line[: MAX_TITLE_CHARS - 1]}…"


def _end(incomplete: dict[str, str]) -> None:
    for name, why in incomplete.items():
        print_text(f"{name}: {why}", err=True)
    if incomplete:
        raise typer.Exit(1)
