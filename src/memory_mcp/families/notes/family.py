"""The notes family: how to open it, and its functions for recall, Home and references."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from memory_mcp.caller import Caller
from memory_mcp.families.context import Context
from memory_mcp.families.family import Call, Family
from memory_mcp.families.notes import prompts, references, resources
from memory_mcp.families.notes.addresses import note_uri
from memory_mcp.families.notes.model import Filter, NoteQuery
from memory_mcp.families.notes.operations import Notes
from memory_mcp.families.notes.schema import NOTES_FILE
from memory_mcp.families.texts import Match, TextQuery
from memory_mcp.services.search.text_facts import TextFacts

if TYPE_CHECKING:
    from memory_mcp.families.maintenance import FamilyMaintenance


def _open(context: Context) -> Notes:
    notes = Notes(context.user_databases(NOTES_FILE), context.changes, context.embedders, context.times)
    context.before_close(notes.index_merge.merge)
    context.before_close(notes.close)
    return notes


def _counts(notes: Notes, caller: Caller) -> dict[str, int]:
    totals = notes.reader.totals(caller)
    return {
        "notes": totals.notes,
        "namespaces": totals.namespaces,
        "embedded": totals.embedded,
        "waiting": totals.waiting,
    }


def _search(call: Call[Notes], wanted: TextQuery) -> Iterator[Match]:
    """By the notes' own search index. A superseded note has no higher score than the note that supersedes it. Recall
    compares sessions itself."""
    chosen = Filter(tags=wanted.tags, created=wanted.created)
    query = NoteQuery(wanted.query, chosen, limit=wanted.limit, falls_back=False, compares_sessions=False)
    found, _ = call.operations.reader.hits(call.caller, query)
    scores = {hit.id: hit.score for hit in found}
    for hit in found:
        score = min(hit.score, scores.get(hit.superseded_by or "", hit.score))
        cosine, lexical = (reasons.cosine, reasons.lexical) if (reasons := hit.score_breakdown) else (None, None)
        yield Match(
            *(note_uri(hit.id), hit.title, hit.snippet, score, cosine, lexical),
            facts=TextFacts(
                *(hit.created_at, hit.updated_at, hit.namespace, hit.source), hit.session_id, written_at=hit.created_at
            ),
            closeness=hit.closeness,
            superseded_by=note_uri(hit.superseded_by) if hit.superseded_by else None,
            has_context=True,
        )


def _load_maintenance() -> "FamilyMaintenance[Notes]":
    from memory_mcp.families.notes.maintenance import MAINTENANCE  # not needed at the start of a server

    return MAINTENANCE


notes = Family[Notes](
    name="notes",
    purpose="linked notes in namespaces, found by words and by meaning; [[Title]] links to a note, and `supersedes` "
    "says which one a note replaces",
    main_tools=("memory_search", "memory_create", "memory_update", "memory_link"),
    errors="tool-result",
    uri_prefixes=resources.PREFIXES,
    open=_open,
    maintenance=_load_maintenance,
    databases=(NOTES_FILE,),
    spells_out_bounds=True,
    is_confinable=True,
    prompts=prompts.PROMPTS,
    templates=resources.TEMPLATES,
    list_resources=resources.list_page,
    read_resource=resources.read,
    subscription_uri=resources.subscription_uri,
    complete=resources.complete,
    prepare=lambda notes, users: notes.open_local(),
    start=lambda notes: notes.worker.start(),
    stop=lambda notes: notes.worker.stop(),
    housekeeping=lambda notes: notes.maintain(),
    counts=_counts,
    last_writes=lambda notes, caller, limit: notes.reader.last_written(caller, limit),
    references=references.REFERENCES,
    journals=lambda notes, caller: notes.writer.journals(caller),
    sizes=lambda notes, caller: notes.reader.sizes(caller),
    search=_search,
)
