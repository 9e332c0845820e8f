"""The memories that clearly answer a prompt: a few of them, or none."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from memory_mcp import tokens
from memory_mcp.caller import Caller
from memory_mcp.conversations.model import CONVERSATIONS, PROJECTS, SOURCE, GivenMemory, Project
from memory_mcp.conversations.texts import FRAME_TOKENS, day, one_line
from memory_mcp.families.notes import Notes
from memory_mcp.families.notes.addresses import note_uri
from memory_mcp.families.notes.model import Filter, Note, NoteHit, NoteQuery
from memory_mcp.families.recall import Recall
from memory_mcp.families.recall.model import RecallQuery
from memory_mcp.families.texts import Match
from memory_mcp.search.text_facts import TextFacts
from memory_mcp.sessions import Session

MAX_CANDIDATES = 20  # of each search
MIN_PROMPT_WORDS = 3  # shorter prompts name nothing to look for
MAX_QUERY_CHARS = 1000
MAX_TITLE_CHARS = 80
MAX_MEMORY_CHARS = 800
MAX_ADJACENT_CHARS = 400
MAX_ADJACENT = 5  # messages before a message, and as many after it

# Measured on LoCoMo: docs/benchmarks.md#memory-by-itself
MIN_CLOSENESS = 0.40  # of the nearest memory, for a prompt to get any
MIN_LEXICAL = 0.7  # the same where no vectors can be compared


@dataclass
class Passage:
    """A memory, and if it is a message of a conversation, the messages around it as far as they fit."""

    match: Match
    heading: str
    lines: list[str]
    memories: list[GivenMemory]  # all that is shown
    first: str | None = None  # the id of its first message
    last: str | None = None

    @property
    def text(self) -> str:
        return "\n".join([self.heading, *(f"  {line}" for line in self.lines)])


@dataclass
class _Budget:
    left: int  # tokens

    def take(self, text: str) -> bool:
        """Whether a text fits."""
        cost = tokens.estimate(text) + 1  # the end of the line
        self.left -= cost if (fits := cost <= self.left) else 0
        return fits


@dataclass(frozen=True)
class SuggestionLimits:
    max_tokens: int
    max_memories: int


@dataclass(frozen=True)
class Suggested:
    passages: list[Passage] = field(default_factory=list)
    why: str = ""


class Suggestions:
    def __init__(self, notes: Notes, recall: Recall) -> None:
        self._notes = notes
        self._recall = recall

    def find(
        self,
        caller: Caller,
        session: Session,
        project: Project,
        prompt: str,
        given: Collection[str],
        limits: SuggestionLimits,
    ) -> Suggested:
        """Memories for a prompt, without those that its conversation was given before."""
        if len(prompt.split()) < MIN_PROMPT_WORDS:
            return Suggested(why="the prompt has too few words to look for")
        query = prompt[:MAX_QUERY_CHARS]
        found = {match.ref: match for match in self._candidates(caller, session, project, query)}
        if not any(map(is_clear, found.values())):
            return Suggested(why=f"none of {len(found)} memories clearly answers the prompt")
        new = [match for match in found.values() if match.ref not in given]
        best = sorted(new, key=lambda match: (-match.score, match.ref))[: limits.max_memories]
        budget = _Budget(limits.max_tokens - FRAME_TOKENS)
        passages: list[Passage] = []
        for match in best:
            if not self._join(caller, match, passages, budget) and (passage := _passage(match, budget)):
                passages.append(passage)
        shown = {*given, *(match.ref for match in best)}
        for _ in range(MAX_ADJACENT):
            for passage in passages:
                self._widen(caller, passage, shown, budget)
        return Suggested(passages, "" if passages else "what answers the prompt was given before, or is too long")

    def _candidates(self, caller: Caller, session: Session, project: Project, query: str) -> Iterator[Match]:
        if "notes" in caller.families:
            for namespace in (project.namespace, project.conversations):
                yield from self._in_notes(caller, NoteQuery(query, Filter(namespace), limit=MAX_CANDIDATES))
        for matches in self._recall.matches(caller, session, RecallQuery(query, limit=MAX_CANDIDATES)).values():
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

    def _join(self, caller: Caller, match: Match, passages: list[Passage], budget: _Budget) -> bool:
        """Add a message to the passage that it follows or precedes. False if there is none, or it does not fit."""
        if match.facts.source != SOURCE:
            return False
        id_ = _note_id(match)
        before, after = self._notes.series.around(caller, id_)
        line = one_line(match.snippet, MAX_MEMORY_CHARS)
        for passage in passages:
            is_last = before is not None and before.id == passage.last
            if (is_last or (after is not None and after.id == passage.first)) and budget.take(f"  {line}"):
                passage.lines.insert(len(passage.lines) if is_last else 0, line)
                passage.memories.append(GivenMemory(match.ref, _why(match)))
                passage.first, passage.last = (passage.first, id_) if is_last else (id_, passage.last)
                return True
        return False

    def _widen(self, caller: Caller, passage: Passage, shown: set[str], budget: _Budget) -> None:
        """Add the message before and the message after a passage, if they fit. Tool calls are passed over."""
        if passage.first and (note := self._notes.series.around(caller, passage.first)[0]):
            passage.first = note.id if self._add(passage, note, 0, shown, budget) else None
        if passage.last and (note := self._notes.series.around(caller, passage.last)[1]):
            passage.last = note.id if self._add(passage, note, len(passage.lines), shown, budget) else None

    @staticmethod
    def _add(passage: Passage, note: Note, place: int, shown: set[str], budget: _Budget) -> bool:
        if note.metadata.get("role") == "tool":
            return True
        ref, line = note_uri(note.id), _line(note.metadata.get("role"), note.content, MAX_ADJACENT_CHARS)
        if ref in shown or not budget.take(f"  {line}"):
            return False
        shown.add(ref)
        passage.memories.append(GivenMemory(ref, "beside a message that answers the prompt"))
        passage.lines.insert(place, line)
        return True


def is_clear(match: Match) -> bool:
    """Whether a match is near enough to be put in front of a model that did not look for it."""
    if match.closeness is not None:
        return match.closeness >= MIN_CLOSENESS
    return (match.lexical or 0.0) >= MIN_LEXICAL


def _is_of_a_project(namespace: str | None) -> bool:
    return (namespace or "").startswith((PROJECTS, CONVERSATIONS))


def _passage(match: Match, budget: _Budget) -> Passage | None:
    """None if it does not fit."""
    is_message = match.facts.source == SOURCE
    kind = "said in a conversation" if is_message else one_line(match.title, MAX_TITLE_CHARS)
    heading = " ".join(filter(None, ["-", day(match.facts.created_at), kind, f"({match.ref})"]))
    text = one_line(match.snippet, MAX_MEMORY_CHARS)
    if not budget.take(f"{heading}\n  {text}"):
        return None
    id_ = _note_id(match) if is_message else None
    return Passage(match, heading, [text], [GivenMemory(match.ref, _why(match))], id_, id_)


def _why(match: Match) -> str:
    if match.closeness is not None:
        return f"answers the prompt (closeness {match.closeness:.2f})"
    return f"has the words of the prompt ({match.lexical or 0.0:.2f})"


def _note_id(match: Match) -> str:
    return match.ref.rpartition("/")[2]


def _is_tool_call(hit: NoteHit) -> bool:
    return hit.source == SOURCE and "tool" in hit.tags


def _line(role: object, text: str, max_chars: int) -> str:
    return f"{role or 'note'}: {one_line(text, max_chars)}"
