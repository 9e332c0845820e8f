"""What a conversation gets at its start: what was decided and changed lately, what is open, who and what matters.

It is built from what is stored, in a fixed order: the same memories give the same text.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from memory_mcp.caller import Caller
from memory_mcp.conversations import storage
from memory_mcp.conversations.model import SOURCE, ConversationFilter, GivenMemory, HookCall, HookProject
from memory_mcp.conversations.texts import FRAME_TOKENS, day, one_line
from memory_mcp.engines.transactions import UserDatabases
from memory_mcp.errors import AppError
from memory_mcp.families.graph import Graph
from memory_mcp.families.graph.model import ref_of as entity_ref
from memory_mcp.families.notes import Notes
from memory_mcp.families.notes.addresses import note_uri
from memory_mcp.families.notes.model import Filter, NoteHit, NoteQuery
from memory_mcp.families.stores import Stores
from memory_mcp.families.stores.model import ref_of as memory_ref
from memory_mcp.text import tokens

MAX_NOTES = 200  # of a project, the newest, that are looked at
# Lines of each section
MAX_LATE, MAX_OPEN, MAX_IMPORTANT = 8, 8, 8
MAX_ENTITIES, MAX_FILES, MAX_CONVERSATIONS = 5, 5, 3

MAX_MESSAGES = 40  # of a conversation that goes on
MAX_LINE_CHARS = 240
CONTINUED_SHARE = 0.6  # of the tokens, for the conversation that goes on
LINK_WEIGHT, MAX_LINKS_COUNTED, REFERENCED_WEIGHT = 0.05, 6, 0.1

OPEN_TAGS = {"todo", "open", "task", "question", "next", "blocked", "wip"}
DONE_TAGS = {"done", "closed", "resolved"}
_UNCHECKED = re.compile(r"^\s*[-*] \[ \] +(.+)$", re.MULTILINE)


@dataclass(frozen=True)
class DigestLine:
    text: str
    ref: str

    def __str__(self) -> str:
        return f"- {self.text} ({self.ref})"


@dataclass(frozen=True)
class Section:
    title: str
    lines: list[DigestLine]


@dataclass
class Digest:
    lines: list[str] = field(default_factory=list)
    memories: list[GivenMemory] = field(default_factory=list)


class Digests:
    def __init__(self, notes: Notes, graph: Graph, stores: Stores, files: UserDatabases) -> None:
        self._notes = notes
        self._graph = graph
        self._stores = stores
        self._files = files

    def write(self, caller: Caller, call: HookCall, project: HookProject, max_tokens: int) -> Digest:
        """Empty for a project without memories."""
        digest, left = Digest(), max_tokens - FRAME_TOKENS
        if call.is_continued and "notes" in caller.families:
            messages = self._messages_of(caller, call, int(left * CONTINUED_SHARE))
            left -= _add(digest, Section("Earlier in this conversation", messages), left)
        for section in self._sections(caller, call, project):
            left -= _add(digest, section, left)
        return digest

    def _sections(self, caller: Caller, call: HookCall, project: HookProject) -> Iterator[Section]:
        if "notes" in caller.families:
            notes = self._curated(caller, project)
            unfinished = list(_open_items(notes))[:MAX_OPEN]
            others = [note for note in notes if note_uri(note.id) not in {line.ref for line in unfinished}]
            yield Section("Decided and changed lately", [_line(note) for note in others[:MAX_LATE]])
            yield Section("Open", unfinished)
            yield Section("Important", self._important(caller, others[MAX_LATE:]))
        if "graph" in caller.families:
            yield Section("Who and what", self._entities(caller, project))
        if "stores" in caller.families:
            yield Section("Files", self._memories(caller, project))
        if "notes" in caller.families:
            yield Section("Last conversations", self._conversations(caller, call, project))

    def _curated(self, caller: Caller, project: HookProject) -> list[NoteHit]:
        """The last written first."""
        query = NoteQuery("", Filter(project.namespace), limit=MAX_NOTES)
        hits, _ = self._notes.reader.hits(caller, query)
        return sorted(
            (hit for hit in hits if not hit.superseded_by), key=lambda hit: (hit.updated_at, hit.id), reverse=True
        )

    def _important(self, caller: Caller, notes: list[NoteHit]) -> list[DigestLine]:
        """By importance, links and whether they were read since they were written."""
        links = self._notes.reader.link_counts(caller, [note.id for note in notes])

        def weight(note: NoteHit) -> float:
            was_read = bool(note.last_referenced_at)
            linked = min(links.get(note.id, 0), MAX_LINKS_COUNTED)
            return note.importance + LINK_WEIGHT * linked + REFERENCED_WEIGHT * was_read

        return [_line(note) for note in sorted(notes, key=lambda note: (-weight(note), note.id))[:MAX_IMPORTANT]]

    def _entities(self, caller: Caller, project: HookProject) -> list[DigestLine]:
        """The best connected ones of the graph's project of the same name."""
        lines = []
        with suppress(AppError):  # there is no such project
            for name, kind, _ in self._graph.view(caller, project.name, MAX_ENTITIES).nodes:
                entity, _ = self._graph.entity(caller, project.name, name)
                facts = "; ".join(entity.observations)
                text = one_line(f"{day(entity.updated_at)} {name} ({kind}): {facts}", MAX_LINE_CHARS)
                lines.append(DigestLine(text, entity_ref(project.name, name)))
        return lines

    def _memories(self, caller: Caller, project: HookProject) -> list[DigestLine]:
        """The last written ones of the store of the same name."""
        with suppress(AppError):  # there is no such store
            found = self._stores.recent(caller, project.name, None, MAX_FILES, include_expired=False)
            return [
                DigestLine(
                    one_line(f"{day(one.updated_at)} {one.path}: {one.content}", MAX_LINE_CHARS),
                    memory_ref(project.name, one.path),
                )
                for one in found.memories
            ]
        return []

    def _conversations(self, caller: Caller, call: HookCall, project: HookProject) -> list[DigestLine]:
        with self._files.database(caller.user).read() as tx:
            found = storage.page(tx, ConversationFilter(project.name), MAX_CONVERSATIONS + 1)
        return [
            DigestLine(one_line(f"{day(one.last_at)} {one.title}", MAX_LINE_CHARS), note_uri(one.last_note))
            for one in found
            if one.id != call.conversation and one.last_note
        ][:MAX_CONVERSATIONS]

    def _messages_of(self, caller: Caller, call: HookCall, max_tokens: int) -> list[DigestLine]:
        """The last messages of the conversation that fit, in their order."""
        query = NoteQuery("", Filter(source=SOURCE, session=call.conversation), limit=MAX_MESSAGES)
        hits, _ = self._notes.reader.hits(caller, query)
        lines = [
            DigestLine(f"{day(hit.created_at)} {_role(hit)}: {one_line(hit.snippet, MAX_LINE_CHARS)}", note_uri(hit.id))
            for hit in hits
            if "tool" not in hit.tags
        ]
        return list(reversed(list(_lines_within(lines, max_tokens))))


def _add(digest: Digest, section: Section, left: int) -> int:
    """Add as much of a section as fits. Returns the tokens it took."""
    heading = f"{section.title}:"
    used = tokens.estimate(heading) + 1
    shown = list(_lines_within(section.lines, left - used))
    if not shown:
        return 0
    digest.lines += [heading, *map(str, shown)]
    digest.memories += [GivenMemory(line.ref, section.title) for line in shown]
    return used + sum(_cost(line) for line in shown)


def _lines_within(lines: Iterable[DigestLine], left: int) -> Iterator[DigestLine]:
    for line in lines:
        left -= _cost(line)
        if left < 0:
            return
        yield line


def _cost(line: DigestLine) -> int:
    return tokens.estimate(str(line)) + 1


def _line(note: NoteHit) -> DigestLine:
    text = note.snippet if note.snippet.startswith(note.title) else f"{note.title}: {note.snippet}"
    return DigestLine(one_line(f"{day(note.updated_at)} {text}", MAX_LINE_CHARS), note_uri(note.id))


def _open_items(notes: Iterable[NoteHit]) -> Iterator[DigestLine]:
    """Unchecked items of lists, and notes with a tag such as todo."""
    for note in notes:
        tags = {tag.casefold() for tag in note.tags}
        if tags & DONE_TAGS:
            continue
        items = _UNCHECKED.findall(note.snippet)
        if items:
            text = f"{day(note.updated_at)} {note.title}: {'; '.join(items)}"
            yield DigestLine(one_line(text, MAX_LINE_CHARS), note_uri(note.id))
        elif tags & OPEN_TAGS:
            yield _line(note)


def _role(hit: NoteHit) -> str:
    return "user" if "user" in hit.tags else "assistant"
