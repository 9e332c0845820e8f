import sys
from pathlib import Path
from typing import Annotated

import typer

from memory_mcp.cli.common import AsJson, DataDir, opened_app, print_json
from memory_mcp.errors import Invalid, Unavailable
from memory_mcp.graph import exchange, picture

cli = typer.Typer(help="Move knowledge graphs in and out, and look at them.", no_args_is_help=True)

Project = Annotated[str, typer.Argument(help="Name of the project.", metavar="PROJECT")]
File = Annotated[Path | None, typer.Argument(help="File to write.", show_default="standard output", metavar="FILE")]


@cli.command("export")
def export_graph(project: Project, file: File = None, data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Write a project in the format of @modelcontextprotocol/server-memory (JSON lines)."""
    with opened_app(data_dir) as (app, caller):
        lines = list(exchange.lines(app.graph.pages(caller, project)))
    _write(file, "".join(f"{line}\n" for line in lines))
    if as_json and file:
        print_json({"project": project, "file": file, "lines": len(lines)})


@cli.command("import")
def import_graph(
    file: Annotated[Path, typer.Argument(help="A file of @modelcontextprotocol/server-memory.")],
    project: Annotated[str, typer.Option("--project", help="Where to; made if it is missing.")],
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Take in a file of @modelcontextprotocol/server-memory: all of it or nothing. What is known already stays."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise Invalid(f"{file} cannot be read as text. Give a file of server-memory.") from exc
    entities, ties = exchange.parse(text)
    with opened_app(data_dir) as (app, caller):
        taken = app.graph.add_graph(caller, project, entities, ties)
    if as_json:
        print_json({"project": project, **vars(taken)})
        return
    typer.echo(
        f"{taken.entities} entities, {taken.observations} observations and {taken.relations} relations are new in "
        f"{project!r}; {taken.known} were known."
    )
    if taken.dangling:
        typer.echo(f"{taken.dangling} relations name entities that nobody knows, and were left out.")


@cli.command("picture")
def draw(project: Project, file: File = None, data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Draw a project as an SVG."""
    with opened_app(data_dir) as (app, caller):
        pages = list(app.graph.pages(caller, project))
    entities = [entity for page in pages for entity in page.entities]
    relations = [relation for page in pages for relation in page.relations]
    shown = picture.best_connected(entities, relations)
    _write(file, picture.svg(project, shown, relations))
    if len(shown) < len(entities):
        typer.echo(f"Only the {len(shown)} best connected of {len(entities)} entities are drawn.", err=True)
    if as_json and file:
        print_json({"project": project, "file": file, "entities": len(shown)})


def _write(file: Path | None, text: str) -> None:
    if file is None:
        sys.stdout.write(text)
        return
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as exc:
        raise Unavailable(f"{file} cannot be written ({exc.strerror}).") from exc
