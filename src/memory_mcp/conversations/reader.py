"""Reading conversations: lists of them, their messages, and what was given to models."""

from memory_mcp.caller import Caller
from memory_mcp.conversations import storage
from memory_mcp.conversations.model import SOURCE, Conversation, ConversationCursor, ConversationFilter, GivenMemories
from memory_mcp.conversations.texts import counted_messages
from memory_mcp.engines.transactions import UserDatabase, UserDatabases
from memory_mcp.errors import NotFound
from memory_mcp.families.family import LastWrite
from memory_mcp.families.notes import Notes
from memory_mcp.families.notes.addresses import CONVERSATION
from memory_mcp.families.notes.model import Filter, Note


class ConversationReader:
    def __init__(self, notes: Notes, files: UserDatabases) -> None:
        self._notes = notes
        self._files = files

    def page(
        self, caller: Caller, chosen: ConversationFilter, limit: int, after: ConversationCursor | None = None
    ) -> tuple[list[Conversation], ConversationCursor | None]:
        """Conversations with stored messages, the last first, and the next cursor."""
        with self._db(caller).read() as tx:
            found = storage.page(tx, chosen, limit + 1, *([after] if after else []))
        return found[:limit], found[limit - 1].cursor if len(found) > limit else None

    def counts(self, caller: Caller) -> tuple[dict[str, int], dict[str, int]]:
        """How many conversations each project has, and each client."""
        with self._db(caller).read() as tx:
            return storage.counts(tx)

    def last_writes(self, caller: Caller, limit: int) -> list[LastWrite]:
        found, _ = self.page(caller, ConversationFilter(), limit)
        return [
            LastWrite(one.ref, f"{one.project}, {counted_messages(one.messages)}: {one.title}", one.last_at)
            for one in found
        ]

    def get(self, caller: Caller, ref: str) -> Conversation:
        """Raises NotFound."""
        found = None
        if ref.startswith(CONVERSATION):
            with self._db(caller).read() as tx:
                found = storage.get(tx, ref.removeprefix(CONVERSATION))
        if found is None or found.is_deleted:
            raise NotFound(f"There is no conversation {ref!r}.", ref=ref)
        return found

    def messages(
        self, caller: Caller, conversation: Conversation, after: int, limit: int
    ) -> tuple[list[Note], int | None]:
        """In their order, and where the next page starts."""
        return self._notes.series.page(caller, Filter(source=SOURCE, session=conversation.id), after, limit)

    def given(
        self, caller: Caller, conversation: str | None, limit: int, before: int | None = None
    ) -> tuple[list[GivenMemories], int | None]:
        """What was given to models, the last first, and the number before which the next page starts."""
        with self._db(caller).read() as tx:
            found = storage.given_memories(tx, conversation, before, limit + 1)
        return found[:limit], found[limit - 1].seq if len(found) > limit else None

    def given_counts(self, caller: Caller, ids: list[str]) -> dict[str, int]:
        """How many memories each of these conversations was given."""
        with self._db(caller).read() as tx:
            return storage.given_counts(tx, ids)

    def _db(self, caller: Caller) -> UserDatabase:
        return self._files.database(caller.user)
