import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Annotated

import typer

from memory_mcp.cli import imports
from memory_mcp.cli.common import AsJson, DataDir, use_app
from memory_mcp.cli.output import print_json, print_text
from memory_mcp.cli.verbs import Verbs
from memory_mcp.errors import Unavailable
from memory_mcp.families.graph import exchange, picture
from memory_mcp.families.graph.model import Entity, Relation
from memory_mcp.importers import ImportPlan

cli = Verbs(help="Export, import and draw knowledge graphs.", no_args_is_help=True)

Project = Annotated[str, typer.Argument(help="Name of the project.", metavar="PROJECT")]
File = Annotated[Path | None, typer.Argument(help="File to write.", show_default="standard output", metavar="FILE")]


@cli.command("export")
def export_graph(project: Project, file: File = None, data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Write a project in the format of @modelcontextprotocol/server-memory (JSON lines)."""
    lines = 0
    with use_app(data_dir) as (app, caller), _open_output(file) as out:
        for line in exchange.lines(app.graph.everything(caller, project)):
            out.write(line)
            lines += 1
    if as_json and file:
        print_json({"project": project, "file": file, "lines": lines})


@cli.command("import")
def import_graph(
    file: Annotated[Path, typer.Argument(help="A file of @modelcontextprotocol/server-memory.")],
    project: Annotated[str, typer.Option("--project", help="The project to import into; created if it is missing.")],
    dry_run: imports.DryRun = False,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Import a file of @modelcontextprotocol/server-memory: the same as `memory-mcp import server-memory`."""
    imports.run(ImportPlan("server-memory", file, project, dry_run), data_dir, as_json=as_json)


@cli.command("picture")
def draw(project: Project, file: File = None, data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Draw a project as an SVG."""
    with use_app(data_dir) as (app, caller):
        everything = list(app.graph.everything(caller, project))
    entities = [item for item in everything if isinstance(item, Entity)]
    relations = [item for item in everything if isinstance(item, Relation)]
    shown = picture.best_connected(entities, relations)
    with _open_output(file) as out:
        out.write(picture.svg(project, shown, relations))
    if len(shown) < len(entities):
        print_text(f"Only the {len(shown)} best connected of {len(entities)} entities are drawn.", err=True)
    if as_json and file:
        print_json({"project": project, "file": file, "entities": len(shown)})


@contextmanager
def _open_output(file: Path | None) -> Iterator[IO[str]]:
    """The file to write, or stdout. The file is replaced when the block ends, and unchanged if anything fails."""
    if file is None:
        yield sys.stdout
        return
    target = file.resolve()  # replace the target of a link, not the link
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        if target.exists() and not target.is_file():
            with target.open("w", encoding="utf-8") as out:  # a pipe or a device, which cannot be replaced
                yield out
            return
        with part.open("w", encoding="utf-8", newline="\n") as out:
            if target.exists():
                shutil.copymode(target, part)
            yield out
            out.flush()
            os.fsync(out.fileno())
        part.replace(target)
    except OSError as exc:
        raise Unavailable(f"{file} cannot be written ({exc.strerror}).") from exc
    finally:
        with suppress(OSError):
            part.unlink()
