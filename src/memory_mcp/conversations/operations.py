"""Answers hooks: gives a conversation its memories, and stores its messages as notes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from memory_mcp.access import Tenants
from memory_mcp.caller import Caller
from memory_mcp.clock import Clock
from memory_mcp.conversations import projects, storage
from memory_mcp.conversations.capture import Capture
from memory_mcp.conversations.deletion import Deletion
from memory_mcp.conversations.digest import Digests
from memory_mcp.conversations.model import GivenMemory, HookAnswer, HookCall, Project
from memory_mcp.conversations.reader import ConversationReader
from memory_mcp.conversations.suggestions import SuggestionLimits, Suggestions
from memory_mcp.conversations.texts import framed
from memory_mcp.families.graph import Graph
from memory_mcp.families.notes import Notes
from memory_mcp.families.recall import Recall
from memory_mcp.families.stores import Stores
from memory_mcp.sessions import Session
from memory_mcp.settings import Settings


@dataclass(frozen=True)
class Families:
    notes: Notes
    graph: Graph
    stores: Stores
    recall: Recall


class Conversations:
    def __init__(
        self, families: Families, files: Tenants, settings: Settings, clock: Clock, notify: Callable[[str], None]
    ) -> None:
        """`notify` is called with a user whose list of conversations changed, or of what was given to them."""
        self._files = files
        self._notify = notify
        self._settings = settings
        self._capture = Capture(families.notes, files, settings.hook_days, clock)
        self._digests = Digests(families.notes, families.graph, families.stores, files)
        self._suggestions = Suggestions(families.notes, families.recall)
        self.reader = ConversationReader(families.notes, files)
        self.editing = Deletion(families.notes, files).editing

    def answer(self, caller: Caller, session: Session, call: HookCall) -> HookAnswer:
        """Do what belongs to an event. Raises AppError, or OSError for a transcript that cannot be read."""
        if call.folder is None:
            return HookAnswer(why="the client named no folder")
        project = projects.project_of(call.folder)
        if why := self._off(call, project):
            return HookAnswer(why=why, details={"project": project.name})
        handlers: dict[str, Callable[[Caller, Session, HookCall, Project], HookAnswer]] = {
            "start": self._start,
            "prompt": self._prompt,
            "capture": self._keep,
        }
        return handlers[call.moment](caller, session, call, project)

    def _off(self, call: HookCall, project: Project) -> str | None:
        """Why hooks do nothing here."""
        if not self._settings.hooks:
            return "the setting hooks switches them off"
        without = {name.casefold() for name in self._settings.hooks_without}
        for name in (call.client, project.name):
            if name in without:
                return f"the setting hooks_without names {name}"
        return project.off

    def _start(self, caller: Caller, session: Session, call: HookCall, project: Project) -> HookAnswer:
        max_tokens = self._settings.hook_start_tokens
        digest = self._digests.write(caller, call, project, max_tokens)
        return self._give(
            caller, call, project, digest.lines, digest.memories, "there is nothing about this project yet"
        )

    def _prompt(self, caller: Caller, session: Session, call: HookCall, project: Project) -> HookAnswer:
        limits = SuggestionLimits(self._settings.hook_prompt_tokens, self._settings.hook_prompt_memories)
        with self._files.database(caller.user).read() as tx:
            given = storage.given(tx, call.conversation)
        found = self._suggestions.find(caller, session, project, call.prompt, given, limits)
        lines = [passage.text for passage in found.passages]
        memories = [memory for passage in found.passages for memory in passage.memories]
        return self._give(caller, call, project, lines, memories, found.why)

    def _give(
        self,
        caller: Caller,
        call: HookCall,
        project: Project,
        lines: Sequence[str],
        memories: Sequence[GivenMemory],
        why: str,
    ) -> HookAnswer:
        """Record what is given, or the reason `why` nothing is."""
        details = {"project": project.name, "refs": [memory.ref for memory in memories]}
        if not lines:
            return HookAnswer(why=why, details=details)
        with self._files.database(caller.user).write() as tx:
            storage.add_given(tx, call, project.name, memories)
        self._notify(caller.user)
        what = "1 memory" if len(memories) == 1 else f"{len(memories)} memories"
        return HookAnswer(framed(lines), f"gave {what}", details=details)

    def _keep(self, caller: Caller, session: Session, call: HookCall, project: Project) -> HookAnswer:
        details = {"project": project.name}
        if not (self._settings.hook_capture and project.captures):
            return HookAnswer(why="capture is switched off", details=details)
        if "notes" not in caller.families:
            return HookAnswer(why="the family notes is switched off", details=details)
        if call.transcript is None:
            return HookAnswer(why="the client named no transcript", details=details)
        try:
            stored = self._capture.run(caller, call, project)
        except FileNotFoundError:
            return HookAnswer(why="the client wrote no transcript", details=details)
        resumed = self._capture.resume(caller)
        self._notify(caller.user)
        more = f", and {resumed} of captures that had not ended" if resumed else ""
        return HookAnswer(did=f"stored {stored} messages{more}", details=details)
