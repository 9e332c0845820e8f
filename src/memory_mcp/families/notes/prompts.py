"""Prompts that a user can choose in a client."""

import json
import re
from collections.abc import Mapping

from memory_mcp.caller import Scope
from memory_mcp.errors import Invalid
from memory_mcp.families.family import Call, Prompt, PromptArgument
from memory_mcp.families.notes import distillation
from memory_mcp.families.notes.operations import Notes


def _recall(call: Call[Notes], given: Mapping[str, str]) -> str:
    topic = given["topic"].strip()
    return (
        f"Call memory_search with the query {_quoted(topic)}. Read what looks relevant in full with memory_get. Then "
        "summarise what is known about it, and cite the id of the note behind each statement. Prefer a note over the "
        "one it supersedes, say where notes contradict each other, and say so if nothing was found."
    )


def _distill(call: Call[Notes], given: Mapping[str, str]) -> str:
    if not given.get("memory_ids"):
        return distillation.write(call, given)
    ids = _ids(given["memory_ids"])
    if not ids:
        raise Invalid("memory_ids: give at least one id.", field="memory_ids")
    listed = "\n".join(f"- {_quoted(id_)}" for id_ in ids)
    return (
        f"Call memory_get for each of these notes:\n{listed}\n"
        "Write one new note that says what they say together, without what is repeated or outdated, and keep it with "
        "memory_create. Then call memory_link from the new note to each of the notes above. Give me the new note's id."
    )


def _ids(text: str) -> list[str]:
    """From a JSON list, or separated by commas or spaces. Raises Invalid for a list of anything else."""
    if not text.lstrip().startswith("["):
        return [id_ for id_ in re.split(r"[\s,]+", text) if id_]
    try:
        found = json.loads(text)
    except ValueError as exc:
        raise Invalid(
            'memory_ids: this is not a JSON list. Give ["ID", "ID"], or the ids alone.', field="memory_ids"
        ) from exc
    if not all(isinstance(id_, str) for id_ in found):
        raise Invalid("memory_ids: each id in the list must be a text.", field="memory_ids")
    return [id_.strip() for id_ in found if id_.strip()]


def _organize(call: Call[Notes], given: Mapping[str, str]) -> str:
    namespace = given.get("namespace", "").strip()
    where = f" with the namespace {_quoted(namespace)}" if namespace else ""
    return (
        f"Call memory_list_tags{where} and memory_stats{where}. Look for tags that mean the same, are misspelt, are "
        "used once, or are so common that they say nothing; look at some notes behind the doubtful ones with "
        "memory_search. Propose a cleaner set of tags as a table: tag now, tag then, number of notes, why. Leave the "
        "tags mcp, memory, the clients' and ns/… alone: the server sets them. Change nothing until I agree; then use "
        "memory_update with add_tags and remove_tags."
    )


def _quoted(text: str) -> str:
    return '"' + " ".join(text.split()).replace('"', "'") + '"'


PROMPTS = (
    Prompt(
        name="recall",
        title="Recall a topic",
        description="Search the notes for a topic and summarise what is there, with citations.",
        arguments=(PromptArgument("topic", "What to recall."),),
        write=_recall,
    ),
    Prompt(
        name="distill",
        title="Distill conversations or notes",
        description="Turn the last conversations that hooks kept into notes, or several notes into one.",
        arguments=(
            PromptArgument(
                "memory_ids",
                "Ids of notes to make one note of: a JSON list, or separated by commas or spaces.",
                required=False,
            ),
            PromptArgument("project", "Else: conversations of this project, not of the last one.", required=False),
            PromptArgument("days", "How far back; 7 if not given.", required=False),
            PromptArgument("conversation", "One conversation alone: its id.", required=False),
        ),
        write=_distill,
        needs=frozenset({Scope.READ, Scope.WRITE, Scope.LINK}),
    ),
    Prompt(
        name="organize",
        title="Organize tags",
        description="Look through the tags in use and propose a cleaner set.",
        arguments=(PromptArgument("namespace", "Only in this namespace.", required=False),),
        write=_organize,
        needs=frozenset({Scope.READ, Scope.WRITE}),
    ),
)
