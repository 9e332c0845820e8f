"""memory-mcp search|add|show|stats: the memory from a terminal."""

import shlex
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import typer
from pydantic import TypeAdapter
from rich.console import Console
from rich.text import Text

from memory_mcp.app import App, embedding_options
from memory_mcp.caller import Caller
from memory_mcp.cli.common import AsJson, DataDir, new_session, report_as_usage_error, split_names, use_app
from memory_mcp.cli.output import console, counted, print_content, print_json, print_text, title_and_text
from memory_mcp.errors import Invalid, Unavailable
from memory_mcp.families.notes.addresses import note_uri
from memory_mcp.families.notes.model import Author, NewNote
from memory_mcp.families.recall.counts import counts_by_family
from memory_mcp.families.recall.model import Incomplete, Recalled, RecallHit, RecallQuery
from memory_mcp.families.recall.operations import NOTHING_FITS
from memory_mcp.families.recall.references import open_reference
from memory_mcp.families.stores.model import Metadata, ref_of
from memory_mcp.families.vault.model import NewMemory, uri_of
from memory_mcp.services.embedding import model_files
from memory_mcp.text.names import new_namespace

NOTHING_MATCHES = "Try other words or fewer filters; `memory-mcp list` shows the latest memories."
BY_WORDS_ONLY = (
    "This searched by words only. `memory-mcp models pull` fetches the model for search by meaning, 35 MB, once."
)
MAX_EMBEDDING_S = 0.5  # of a search, for notes and for other memories each

Tags = Annotated[str, typer.Option(help="Comma-separated.", show_default=False)]


def search(
    query: Annotated[str, typer.Argument(metavar="QUERY")],
    families: Annotated[str, typer.Option(help="Comma-separated families.", show_default="all")] = "",
    tags: Tags = "",
    limit: Annotated[int, typer.Option(min=1, max=100)] = 10,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Search all memories, by words and by meaning.

    Example: memory-mcp search "what did we decide about billing"
    """
    question = RecallQuery(query, tuple(split_names(families)), tuple(split_names(tags)), limit)
    with use_app(data_dir) as (app, caller), report_as_usage_error():  # it refuses only bad queries
        _embed_waiting(app, caller)
        found = app.recall.recall(caller, new_session(caller), question)
        limits = BY_WORDS_ONLY if lacks_model(app, caller) else waiting_text(app, caller)
    found = _for_people(found, data_dir)
    if as_json:
        print_json(TypeAdapter(Recalled).dump_python(found, mode="json"))
    else:
        _print_found(found, limits)
    if any(missing.family not in found.searched for missing in found.incomplete):
        raise typer.Exit(1)


def _for_people(found: Recalled, data_dir: Path | None) -> Recalled:
    """With commands to type where texts for models name tools, or a server."""
    doctor = shlex.join(["memory-mcp", "doctor", *(["--data-dir", str(data_dir)] if data_dir else [])])
    incomplete = [
        Incomplete(one.family, one.error.replace("`memory-mcp doctor`, run where the server runs,", f"`{doctor}`"))
        for one in found.incomplete
    ]
    notice = found.notice.replace(NOTHING_FITS, NOTHING_MATCHES) if found.notice else None
    return replace(found, incomplete=incomplete, notice=notice)


def _print_found(found: Recalled, limits: str) -> None:
    for missing in found.incomplete:
        print_text(f"{missing.family}: {missing.error}", err=True)
    out = console()
    for hit in found.hits:
        _print_hit(out, hit)
    if not found.hits:
        print_text("Nothing matches in the rest." if found.incomplete else "Nothing matches.")
    for text in filter(None, (found.notice, limits)):
        print_text(text, err=True)


def add(
    text: Annotated[str | None, typer.Argument(metavar="TEXT", help="The default is to read stdin.")] = None,
    family: Annotated[Literal["notes", "vault", "stores"], typer.Option(help="Where to store it.")] = "notes",
    title: Annotated[str | None, typer.Option(help="For a note. The default is its first line.")] = None,
    namespace: Annotated[str, typer.Option(help="For a note.")] = "default",
    key: Annotated[str | None, typer.Option(help="In the vault.")] = None,
    store: Annotated[str | None, typer.Option(help="The store's name.")] = None,
    path: Annotated[str | None, typer.Option(help="In the store.")] = None,
    tags: Tags = "",
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Store a text: as a note, under a key of the vault, or as a file of a store.

    Example: git log -1 | memory-mcp add --tags deploy
    """
    with report_as_usage_error():
        content = _content(text)
        needed = {"vault": {"--key": key}, "stores": {"--store": store, "--path": path}}.get(family, {})
        if missing := [option for option, value in needed.items() if not value]:
            raise Invalid(f"{family} needs {' and '.join(missing)}.")
        namespace = new_namespace(namespace)
    names = tuple(split_names(tags))
    with use_app(data_dir, creates=True) as (app, caller):
        if family == "notes":
            note = app.notes.writer.create(caller, Author("ui"), NewNote(content, title, names, namespace=namespace))
            ref = note_uri(note.id)
        elif family == "vault":
            app.vault.commit(caller, new_session(caller), NewMemory("vault", str(key), content, names))
            ref = uri_of(str(key))
        else:
            app.stores.add(caller, str(store), str(path), content, Metadata(tags=list(names)))
            ref = ref_of(str(store), str(path))
    if as_json:
        print_json({"family": family, "ref": ref})
    else:
        print_text(ref)


def show(
    ref: Annotated[str, typer.Argument(metavar="REF", help="As list and search print it.")],
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Show one memory, by its reference.

    Example: memory-mcp show memory://vault/deploy-steps
    """
    with use_app(data_dir) as (app, caller):
        _, opened = open_reference(app.opened, caller, new_session(caller), ref)
    if as_json:
        print_json(opened.details)
    else:
        print_content(opened.content)


def stats(data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Show how many memories every family has."""
    with use_app(data_dir) as (app, caller):
        found = counts_by_family(app.opened, caller)
        path = app.settings.data_dir
    if as_json:
        print_json({"data_dir": path, "families": found})
        return
    out = console()
    for family, counts in found.items():
        text = counts.get("error") or ", ".join(counted(count, name) for name, count in counts.items())
        out.print(Text.assemble((f"{family:<9}", "bold"), text))
    print_text(f"in {path}")


def _embed_waiting(app: App, caller: Caller) -> None:
    """Embed what was stored without a server, so that it is found by its meaning, too."""
    with suppress(Unavailable):  # a damaged file: the search reports it
        app.notes.open_local()
        app.notes.worker.embed_waiting(MAX_EMBEDDING_S)
    app.recall.embed_waiting(caller, MAX_EMBEDDING_S)


def waiting_text(app: App, caller: Caller) -> str:
    """What search by meaning does not find yet. Empty if nothing waits for its vector, or none is wanted."""
    if app.settings.embedder == "none":
        return ""
    notes = 0
    with suppress(Unavailable):
        notes = app.notes.reader.totals(caller).waiting
    if not notes and not app.recall.worker.has_waiting_texts():
        return ""
    which = "1 note has" if notes == 1 else f"{notes:,} notes have" if notes else "Some memories have"
    return (
        f"{which} no vector yet, so search by meaning finds less. A running server computes them; `memory-mcp "
        "models embed` does so now, and shows how long it takes."
    )


def lacks_model(app: App, caller: Caller) -> bool:
    """Whether nothing is found by its meaning because the built-in model was never pulled."""
    options = embedding_options(app.settings)
    is_missing = options.kind in ("auto", "builtin") and not model_files.are_installed(options.model_folder)
    return is_missing and not app.notes.reader.embed_stats(caller).backend_name


def _content(text: str | None) -> str:
    if text is None and sys.stdin.isatty():
        raise Invalid("Give the text, or pipe it in: `echo hello | memory-mcp add`.")
    try:
        content = sys.stdin.read() if text is None else text
        content.encode()  # some locales decode other bytes as surrogates
    except UnicodeError:
        raise Invalid("The text is not UTF-8. Convert it first, such as with iconv.") from None
    if not content.strip():
        raise Invalid("The text is empty. Nothing was stored.")
    return content


def _print_hit(out: Console, hit: RecallHit) -> None:
    title, text = title_and_text(hit.title, hit.snippet)
    out.print(Text.assemble((title, "bold"), "  ", (f"{hit.score:.2f}, by {hit.why}", "dim")))
    out.print(Text(f"  {hit.ref}", "cyan"), soft_wrap=True)
    if text:
        out.print(Text(f"  {text}"))
