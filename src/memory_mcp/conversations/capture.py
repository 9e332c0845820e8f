"""Captures a conversation: what the user and the assistant said becomes notes, each message once."""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path
from uuid import UUID, uuid5

from memory_mcp.caller import Caller
from memory_mcp.clock import Clock, instant, precise_stamp
from memory_mcp.conversations import redaction, storage, transcripts
from memory_mcp.conversations.deletion import delete_messages
from memory_mcp.conversations.model import SOURCE, Conversation, HookCall, HookProject, Message
from memory_mcp.conversations.transcripts import Reading
from memory_mcp.engines.transactions import UserDatabases
from memory_mcp.families.notes import Notes
from memory_mcp.families.notes.model import Author, NewNote

log = logging.getLogger(__name__)

MESSAGES = UUID("6e6a3a2e-6a3b-5c7f-9d43-5a1f0c0e7b11")  # the space of the ids of notes that are messages
BATCH_SIZE = 50  # messages in one transaction
MAX_MESSAGE_CHARS = 100_000
MAX_TITLE_CHARS = 120
MAX_RESUMED = 5  # other conversations whose messages are stored at once
IMPORTANCE = {"user": 0.2, "assistant": 0.1, "tool": 0.0}  # below that of notes that someone chose to write


@dataclass(frozen=True)
class Progress:
    """How far the messages of a transcript are stored."""

    last_note: str | None  # the id
    added: int = 0  # notes that are new
    is_deleted: bool = False  # the user deleted the conversation meanwhile


class Capture:
    def __init__(self, notes: Notes, files: UserDatabases, days: int, clock: Clock) -> None:
        """Messages are kept for so many days."""
        self._notes = notes
        self._files = files
        self._days = timedelta(days=days)
        self._clock = clock

    def run(self, caller: Caller, call: HookCall, project: HookProject) -> int:
        """Store the messages that the transcript has and the notes do not. Returns how many.

        It may be killed at any moment: the next capture goes on where this one ended. Raises OSError if the transcript
        cannot be read.
        """
        if call.transcript is None:
            return 0
        db = self._files.database(caller.user)
        with db.write() as tx:
            conversation = storage.begin_capture(tx, call, project.name)
        if conversation.is_deleted:
            return 0
        stored = self._read(caller, conversation, Path(call.transcript))
        with db.write() as tx:
            storage.end_capture(tx, conversation.id)
        return stored

    def expect(self, caller: Caller, call: HookCall, project: HookProject) -> None:
        """Record that a conversation goes on. If its client is killed, `resume` stores its messages."""
        if call.transcript is None:
            return
        db = self._files.database(caller.user)
        with db.read() as tx:
            known = storage.get(tx, call.conversation)
        is_expected = known and known.is_unfinished and known.transcript == str(call.transcript)
        if not (is_expected or (known and known.is_deleted)):
            with db.write() as tx:
                storage.begin_capture(tx, call, project.name)

    def cancel(self, caller: Caller, conversation: str) -> None:
        """Record that nothing more of a conversation is to be stored."""
        db = self._files.database(caller.user)
        with db.read() as tx:
            known = storage.get(tx, conversation)
        if known and known.is_unfinished:
            with db.write() as tx:
                storage.end_capture(tx, conversation)

    def resume(self, caller: Caller, is_wanted: Callable[[Conversation], bool]) -> int:
        """Store what was said in conversations whose client or capture was killed, if it is wanted, and delete what
        is too old. Returns how many messages were stored."""
        db = self._files.database(caller.user)
        with db.read() as tx:
            unfinished = storage.unfinished(tx, MAX_RESUMED)
        stored = 0
        for conversation in unfinished:
            try:
                if is_wanted(conversation):
                    stored += self._read(caller, conversation, Path(str(conversation.transcript)))
            except OSError as exc:
                log.info("The transcript of %s cannot be read: %s", conversation.id, exc.strerror)
            with db.write() as tx:
                storage.end_capture(tx, conversation.id)
        self._delete_old(caller)
        return stored

    def _delete_old(self, caller: Caller) -> None:
        self._notes.series.delete_expired(caller, SOURCE)
        with self._files.database(caller.user).write() as tx:
            storage.delete_before(tx, precise_stamp(self._clock() - self._days))

    def _read(self, caller: Caller, conversation: Conversation, path: Path) -> int:
        readings = transcripts.read(path, conversation.read_bytes, redaction.redact)
        progress, stored = Progress(conversation.last_note), 0
        while not progress.is_deleted and (batch := list(islice(readings, BATCH_SIZE))):
            progress = self._store(caller, conversation, batch, progress.last_note)
            stored += progress.added
        return stored

    def _store(self, caller: Caller, conversation: Conversation, batch: list[Reading], after: str | None) -> Progress:
        author = Author(SOURCE, conversation.client, conversation.id)
        notes = list(self._notes_of(conversation, batch))
        added = self._notes.series.append(caller, author, notes, after)
        last = notes[-1].id if notes else after
        title = next((_title(one.message.text) for one in batch if one.message.role == "user"), "")
        times = [note.created_at for note in notes if note.created_at]
        with self._files.database(caller.user).write() as tx:
            is_wanted = storage.advance(tx, conversation.id, batch[-1].end, last, times, len(added), title)
        if not is_wanted:
            self._delete(caller, conversation)
        return Progress(last, len(added), is_deleted=not is_wanted)

    def _delete(self, caller: Caller, conversation: Conversation) -> None:
        """Delete what was stored while the user deleted the conversation."""
        with self._files.database(caller.user).read() as tx:
            found = storage.get(tx, conversation.id)
        delete_messages(self._notes, caller, found or conversation)

    def _notes_of(self, conversation: Conversation, batch: list[Reading]) -> Iterator[NewNote]:
        """Messages that would have expired already are left out."""
        now = self._clock()
        for message in (one.message for one in batch):
            at = min(_moment(message) or now, now)  # no message is of the future, to be kept for longer
            if at + self._days > now and message.text.strip():
                yield NewNote(
                    message.text[:MAX_MESSAGE_CHARS],
                    tags=(message.role,),
                    importance=IMPORTANCE[message.role],
                    namespace=HookProject(conversation.project).conversations,
                    metadata={"conversation": conversation.id, "message": message.id, "role": message.role},
                    expires_at=precise_stamp(at + self._days),
                    created_at=precise_stamp(at),
                    id=str(uuid5(MESSAGES, f"{conversation.id}\n{message.id}")),
                )


def _moment(message: Message) -> datetime | None:
    try:
        return instant(message.at) if message.at else None
    except ValueError:
        return None


def _title(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_TITLE_CHARS else f"{line[: MAX_TITLE_CHARS - 1]}…"
