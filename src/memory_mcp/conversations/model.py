from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from memory_mcp.families.notes.addresses import conversation_ref
from memory_mcp.hooks.events import HookMoment
from memory_mcp.text.time_spans import ANY_TIME, Span

Role = Literal["user", "assistant", "tool"]

SOURCE: Literal["hook"] = "hook"  # of the notes that hooks write
PROJECTS, CONVERSATIONS = "project/", "conversations/"  # how the namespaces of a project begin


@dataclass(frozen=True)
class HookCall:
    """A call of a hook, in one form for all clients."""

    client: str
    event: str  # as the client names it
    moment: HookMoment
    session_id: str
    folder: Path | None = None  # where the client works
    transcript: Path | None = None
    prompt: str = ""
    is_continued: bool = False  # at the start: the conversation went on before, and may have been compacted
    is_compaction: bool = False  # the client is about to replace what was said by a summary

    @property
    def conversation(self) -> str:
        """The id of the conversation, unique among clients."""
        return f"{self.client}:{self.session_id}"


@dataclass(frozen=True)
class HookProject:
    """The project of the folder in which a client works. The digest has the graph's project of the same name."""

    name: str
    off: str | None = None  # why hooks do nothing here
    captures: bool = True

    @property
    def namespace(self) -> str:
        """Of its curated notes."""
        return f"{PROJECTS}{self.name}"

    @property
    def conversations(self) -> str:
        """The namespace of its messages."""
        return f"{CONVERSATIONS}{self.name}"


@dataclass(frozen=True)
class Message:
    """One message of a transcript, or a run of tool calls in short."""

    id: str
    role: Role
    text: str
    at: str | None  # ISO 8601


@dataclass(frozen=True)
class Conversation:
    id: str
    client: str
    project: str
    transcript: str | None
    read_bytes: int  # of its transcript
    last_note: str | None  # the note of its last stored message
    messages: int  # that are stored
    title: str  # how its first prompt begins
    started_at: str
    last_at: str
    folder: str | None  # where the client works
    compacted_at: str | None  # what was said before is no longer in front of the model
    is_unfinished: bool  # its transcript may have messages that are not stored
    is_deleted: bool  # by the user: it is not captured again

    @property
    def is_purged(self) -> bool:
        """Deleted for good. An imported conversation has no transcript, either, but a last note."""
        return self.is_deleted and self.transcript is None and self.last_note is None

    @property
    def ref(self) -> str:
        return conversation_ref(self.id)

    @property
    def cursor(self) -> "ConversationCursor":
        return ConversationCursor(self.last_at, self.id)


@dataclass(frozen=True)
class PortableConversation:
    """A conversation as exports have it: without what only this machine can read."""

    id: str
    client: str
    project: str
    title: str
    started_at: str
    last_at: str
    folder: str | None
    messages: int
    last_note: str


@dataclass(frozen=True)
class GivenMemory:
    """A memory that was put in front of a model."""

    ref: str
    why: str  # such as the heading of the digest, or how near it is to the prompt


@dataclass(frozen=True)
class GivenMemories:
    """What one call of a hook put in front of a model."""

    seq: int  # of its first memory; later calls have higher ones
    conversation: str
    project: str
    event: str  # as the client names it
    at: str
    memories: list[GivenMemory]


@dataclass(frozen=True)
class ConversationFilter:
    """Which conversations: those that fit all of it."""

    project: str | None = None
    client: str | None = None
    last: Span = ANY_TIME  # when its last message was written


@dataclass(frozen=True)
class ConversationCursor:
    """Where a list of conversations, the last first, goes on: after this one."""

    last_at: str
    id: str


@dataclass(frozen=True)
class HookAnswer:
    """The answer of a hook to the client, and a report for `hook --explain`."""

    text: str | None = None  # for the model
    did: str = "nothing"
    why: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)
