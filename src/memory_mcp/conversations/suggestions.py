"""The memories that clearly answer a prompt: a few of them, or none."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from memory_mcp.caller import Caller
from memory_mcp.conversations.excerpts import (
    NEAR_DECAY,
    NEAR_WEIGHT,
    SHARPNESS,
    Excerpt,
    ExcerptLimits,
    Line,
    choose,
)
from memory_mcp.conversations.model import CONVERSATIONS, PROJECTS, SOURCE, GivenMemory, HookProject
from memory_mcp.conversations.texts import day, one_line
from memory_mcp.families.notes import Notes
from memory_mcp.families.notes.addresses import note_uri
from memory_mcp.families.notes.model import Filter, NoteHit, NoteQuery
from memory_mcp.families.notes.series import NearNote
from memory_mcp.families.recall import Recall
from memory_mcp.families.recall.model import RecallQuery
from memory_mcp.families.texts import Match
from memory_mcp.services.search.text_facts import TextFacts
from memory_mcp.services.sessions import Session

MAX_NOTES = 45  # of the project, and as many of its messages
MAX_OTHERS = 20  # of each family
MIN_PROMPT_WORDS = 3  # shorter prompts name nothing to look for
MAX_QUERY_CHARS = 1000
MAX_TITLE_CHARS = 80
MAX_MATCH_CHARS = 800
MAX_NEAR_CHARS = 400
MAX_DISTANCE = 2  # of messages that are shown with one that matches

# Chosen on the even conversations of LoCoMo: docs/benchmarks.md#memory-by-itself
MIN_CLOSENESS = 0.42  # of the nearest memory, for a prompt to get any
MIN_CLOSENESS_BY_NAME = 0.34  # of one with a name that the prompt has, too
MIN_LEXICAL = 0.7  # the same where no vectors can be compared


_NAME = re.compile(r"(?<=[\w,;:)\"'] )[A-Z][a-z]\w+")  # a capital within a sentence
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Suggested:
    excerpts: list[Excerpt] = field(default_factory=list)
    why: str = ""


@dataclass(frozen=True)
class PromptContext:
    """What the model has in front of it already."""

    conversation: str
    compacted_at: str | None = None  # before that, its messages were replaced by a summary
    given: Collection[str] = ()  # references of memories

    def has(self, near: NearNote) -> bool:
        note = near.note
        is_own = note.metadata.get("conversation") == self.conversation
        return is_own and (self.compacted_at is None or note.created_at > self.compacted_at)


@dataclass
class _Message:
    """A message that matches, or is near one that does."""

    near: NearNote
    value: float = 0.0
    match: Match | None = None
    score: float = 0.0  # of the match, as a share of the best one


class Suggestions:
    def __init__(self, notes: Notes, recall: Recall) -> None:
        self._notes = notes
        self._recall = recall

    def find(
        self,
        caller: Caller,
        session: Session,
        project: HookProject,
        prompt: str,
        context: PromptContext,
        limits: ExcerptLimits,
    ) -> Suggested:
        """Memories for a prompt, without what its conversation was given before, or consists of."""
        if len(prompt.split()) < MIN_PROMPT_WORDS:
            return Suggested(why="the prompt has too few words to look for")
        query = prompt[:MAX_QUERY_CHARS]
        found = {match.ref: match for match in self._matches(caller, session, project, query)}
        around = self._around(caller, list(found.values()), context)
        found = {ref: match for ref, match in found.items() if ref in around or match.facts.source != SOURCE}
        names = names_in(query)
        if not any(is_clear(match, names) for match in found.values()):
            return Suggested(why=f"none of {len(found)} memories clearly answers the prompt")
        new = [match for ref, match in found.items() if ref not in context.given]
        lines = [line for line in _lines(new, around) if line.given.ref not in context.given]
        excerpts = choose(lines, limits, lambda match: self._heading(caller, match))
        return Suggested(excerpts, "" if excerpts else "what answers the prompt was given before, or is too long")

    def _matches(self, caller: Caller, session: Session, project: HookProject, query: str) -> Iterator[Match]:
        if "notes" in caller.families:
            for namespace in (project.namespace, project.conversations):
                yield from self._in_notes(caller, NoteQuery(query, Filter(namespace), limit=MAX_NOTES))
        for matches in self._recall.matches(caller, session, RecallQuery(query, limit=MAX_OTHERS)).values():
            yield from (one for one in matches if not _is_of_a_project(one.facts.namespace))

    def _in_notes(self, caller: Caller, query: NoteQuery) -> Iterator[Match]:
        hits, _ = self._notes.reader.hits(caller, query)
        for hit in hits:
            parts = hit.score_breakdown
            if parts and not hit.superseded_by and not _is_tool_call(hit):
                facts = TextFacts(hit.created_at, hit.updated_at, hit.namespace, hit.source)
                yield Match(
                    *(note_uri(hit.id), hit.title, hit.snippet, hit.score, parts.cosine, parts.lexical, facts),
                    closeness=hit.closeness,
                )

    def _around(self, caller: Caller, matches: Sequence[Match], context: PromptContext) -> dict[str, list[NearNote]]:
        """By the reference of each message that matches, what was said near it and the message itself.

        Tool calls, what is superseded, and what the model has in front of it are left out.
        """
        ids = [match.ref.rpartition("/")[2] for match in matches if match.facts.source == SOURCE]
        found = self._notes.series.around(caller, ids, MAX_DISTANCE) if ids else {}
        shown = {id_: [one for one in near if _is_shown(one) and not context.has(one)] for id_, near in found.items()}
        return {note_uri(id_): near for id_, near in shown.items() if any(one.distance == 0 for one in near)}

    def _heading(self, caller: Caller, match: Match) -> str:
        is_message, ref = match.facts.source == SOURCE, match.ref
        if ref == note_uri(id_ := ref.rpartition("/")[2]):
            ref = note_uri(self._notes.reader.short_id(caller, id_))
        kind = "conversation" if is_message else one_line(match.title, MAX_TITLE_CHARS)
        return " ".join(filter(None, ["-", day(match.facts.created_at), kind, f"({ref})"]))


def names_in(prompt: str) -> frozenset[str]:
    """Of people, places and products: the words with a capital that begin no sentence."""
    return frozenset(_NAME.findall(prompt))


def is_clear(match: Match, names: frozenset[str] = frozenset()) -> bool:
    """Whether a match is near enough to be put in front of a model that did not look for it. One with a name that the
    prompt has may be a little farther away."""
    if match.closeness is None:
        return (match.lexical or 0.0) >= MIN_LEXICAL
    if match.closeness >= MIN_CLOSENESS:
        return True
    return match.closeness >= MIN_CLOSENESS_BY_NAME and not names.isdisjoint(
        _WORD.findall(f"{match.title} {match.snippet}")
    )


def _lines(matches: Sequence[Match], around: Mapping[str, Sequence[NearNote]]) -> Iterator[Line]:
    """The lines that may be shown, each with its value."""
    best = max((match.score for match in matches), default=0.0)
    messages: dict[str, _Message] = {}
    for match in matches:
        score = match.score / best if best > 0 else 1.0
        if match.ref in around:
            _add_value(messages, match, around[match.ref], score)
        else:
            text = one_line(match.snippet, MAX_MATCH_CHARS)
            yield Line(match.ref, 0, text, GivenMemory(match.ref, _why(match)), score**SHARPNESS, match, score)
    yield from map(_message_line, messages.values())


def _add_value(messages: dict[str, _Message], match: Match, around: Sequence[NearNote], score: float) -> None:
    for near in around:
        message = messages.setdefault(near.note.id, _Message(near))
        if near.distance == 0:
            message.value += score**SHARPNESS
            message.match, message.score = match, score
        else:
            message.value += score**SHARPNESS * NEAR_WEIGHT * NEAR_DECAY ** (abs(near.distance) - 1)


def _message_line(message: _Message) -> Line:
    note, match = message.near.note, message.match
    text = one_line(match.snippet, MAX_MATCH_CHARS) if match else one_line(note.content, MAX_NEAR_CHARS)
    why = _why(match) if match else "near a message that answers the prompt"
    return Line(
        str(note.metadata.get("conversation")),
        message.near.seq,
        f"{note.metadata.get('role')}: {text}",
        GivenMemory(note_uri(note.id), why),
        message.value,
        match,
        message.score,
    )


def _is_shown(near: NearNote) -> bool:
    return near.note.metadata.get("role") != "tool" and not near.note.superseded_by


def _is_of_a_project(namespace: str | None) -> bool:
    return (namespace or "").startswith((PROJECTS, CONVERSATIONS))


def _why(match: Match) -> str:
    if match.closeness is not None:
        return f"answers the prompt (closeness {match.closeness:.2f})"
    return f"has the words of the prompt ({match.lexical or 0.0:.2f})"


def _is_tool_call(hit: NoteHit) -> bool:
    return hit.source == SOURCE and "tool" in hit.tags
