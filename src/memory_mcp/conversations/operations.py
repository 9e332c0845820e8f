"""Answers hooks: gives a conversation its memories, and stores its messages as notes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from memory_mcp.caller import Caller
from memory_mcp.clock import Clock
from memory_mcp.conversations import projects, storage
from memory_mcp.conversations.capture import Capture
from memory_mcp.conversations.deletion import Deletion
from memory_mcp.conversations.digest import Digests
from memory_mcp.conversations.excerpts import ExcerptLimits
from memory_mcp.conversations.model import Conversation, GivenMemory, HookAnswer, HookCall, HookProject
from memory_mcp.conversations.reader import ConversationReader
from memory_mcp.conversations.suggestions import PromptContext, Suggestions
from memory_mcp.conversations.texts import counted_messages, framed
from memory_mcp.conversations.transfer import ConversationTransfer
from memory_mcp.engines.transactions import UserDatabases
from memory_mcp.families.graph import Graph
from memory_mcp.families.notes import Notes
from memory_mcp.families.recall import Recall
from memory_mcp.families.stores import Stores
from memory_mcp.services.sessions import Session
from memory_mcp.settings import Settings


@dataclass(frozen=True)
class Families:
    notes: Notes
    graph: Graph
    stores: Stores
    recall: Recall


class Conversations:
    def __init__(
        self, families: Families, files: UserDatabases, settings: Settings, clock: Clock, notify: Callable[[str], None]
    ) -> None:
        """`notify` is called with a user whose list of conversations changed, or of what was given to them."""
        self._files = files
        self._notify = notify
        self._settings = settings
        self._capture = Capture(families.notes, files, settings.hook_days, clock)
        self._digests = Digests(families.notes, families.graph, families.stores, files)
        self._suggestions = Suggestions(families.notes, families.recall)
        self.reader = ConversationReader(families.notes, files)
        self.edits = Deletion(families.notes, files).edits
        self.transfer = ConversationTransfer(families.notes, files, notify)

    def answer(self, caller: Caller, session: Session, call: HookCall) -> HookAnswer:
        """Do what belongs to an event. Raises AppError, or OSError for a transcript that cannot be read."""
        if call.folder is None:
            return HookAnswer(why="the client named no folder")
        project = projects.project_of(call.folder)
        off = self._off(call.client, project)
        if off or self._not_captured(caller, project):
            self._capture.cancel(caller, call.conversation)
        elif call.moment != "capture":
            self._capture.expect(caller, call, project)
        if off:
            return HookAnswer(why=off, details={"project": project.name})
        handlers: dict[str, Callable[[Caller, Session, HookCall, HookProject], HookAnswer]] = {
            "start": self._start,
            "prompt": self._prompt,
            "capture": self._store_messages,
        }
        return handlers[call.moment](caller, session, call, project)

    def resume_captures(self, caller: Caller) -> int:
        """Store what was said in conversations whose client or capture was killed. Returns how many messages it was."""
        stored = self._capture.resume(caller, partial(self._is_captured, caller))
        if stored:
            self._notify(caller.user)
        return stored

    def _is_captured(self, caller: Caller, conversation: Conversation) -> bool:
        """Whether a conversation may still be captured: its project may have been switched off since it began."""
        project = (
            projects.project_of(Path(conversation.folder)) if conversation.folder else HookProject(conversation.project)
        )
        return not (self._off(conversation.client, project) or self._not_captured(caller, project))

    def _off(self, client: str, project: HookProject) -> str | None:
        """Why hooks do nothing here."""
        if not self._settings.hooks:
            return "the setting hooks switches them off"
        without = {name.casefold() for name in self._settings.hooks_without}
        for name in (client, project.name):
            if name in without:
                return f"the setting hooks_without names {name}"
        return project.off

    def _not_captured(self, caller: Caller, project: HookProject) -> str | None:
        """Why nothing is kept here."""
        if not (self._settings.hook_capture and project.captures):
            return "capture is switched off"
        return None if "notes" in caller.families else "the family notes is switched off"

    def _start(self, caller: Caller, session: Session, call: HookCall, project: HookProject) -> HookAnswer:
        max_tokens = self._settings.hook_start_tokens
        digest = self._digests.write(caller, call, project, max_tokens)
        why = "there is nothing about this project yet"
        return self._give(caller, call, project, digest.lines, digest.memories, len(digest.memories), why)

    def _prompt(self, caller: Caller, session: Session, call: HookCall, project: HookProject) -> HookAnswer:
        limits = ExcerptLimits(self._settings.hook_prompt_tokens, self._settings.hook_prompt_memories)
        with self._files.database(caller.user).read() as tx:
            known, given = storage.get(tx, call.conversation), storage.given(tx, call.conversation)
        context = PromptContext(call.conversation, known.compacted_at if known else None, given)
        found = self._suggestions.find(caller, session, project, call.prompt, context, limits)
        lines = [excerpt.text for excerpt in found.excerpts]
        memories = [line.given for excerpt in found.excerpts for line in excerpt.lines]
        return self._give(caller, call, project, lines, memories, len(found.excerpts), found.why)

    def _give(
        self,
        caller: Caller,
        call: HookCall,
        project: HookProject,
        lines: Sequence[str],
        memories: Sequence[GivenMemory],
        count: int,
        why: str,
    ) -> HookAnswer:
        """Record what is given, and report `count` memories, or the reason `why` there are none."""
        details = {"project": project.name, "refs": [memory.ref for memory in memories]}
        if not lines:
            return HookAnswer(why=why, details=details)
        with self._files.database(caller.user).write() as tx:
            storage.add_given(tx, call, project.name, memories)
        self._notify(caller.user)
        what = "1 memory" if count == 1 else f"{count} memories"
        return HookAnswer(framed(lines), f"gave {what}", details=details)

    def _store_messages(self, caller: Caller, session: Session, call: HookCall, project: HookProject) -> HookAnswer:
        details = {"project": project.name}
        if why := self._not_captured(caller, project):
            return HookAnswer(why=why, details=details)
        if call.transcript is None:
            return HookAnswer(why="the client named no transcript", details=details)
        try:
            stored = self._capture.run(caller, call, project)
        except FileNotFoundError:
            return HookAnswer(why="the client wrote no transcript", details=details)
        resumed = self.resume_captures(caller)
        self._notify(caller.user)
        more = f", and {resumed} of conversations whose client was killed" if resumed else ""
        return HookAnswer(did=f"stored {counted_messages(stored)}{more}", details=details)
