"""Exports and imports of the list of conversations, and the undo of an import."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from memory_mcp.caller import Caller
from memory_mcp.conversations import storage
from memory_mcp.conversations.deletion import delete_messages
from memory_mcp.conversations.model import Conversation, PortableConversation
from memory_mcp.engines.transactions import UserDatabase, UserDatabases
from memory_mcp.families.notes import Notes
from memory_mcp.families.notes.addresses import CONVERSATION, conversation_ref


@dataclass(frozen=True)
class ConversationTransfer:
    notes: Notes
    files: UserDatabases
    notify: Callable[[str], None]  # called with a user whose list of conversations changed

    def everything(self, caller: Caller) -> Iterator[Conversation]:
        """Every conversation with stored messages, in the order of their ids."""
        with self._db(caller).read() as tx:
            yield from storage.everything(tx)

    def has(self, caller: Caller, id_: str) -> bool:
        """Whether a conversation is known here, also if the user deleted it."""
        with self._db(caller).read() as tx:
            return storage.get(tx, id_) is not None

    def add(self, caller: Caller, imported: PortableConversation) -> bool:
        """List a conversation whose messages were imported. False, and nothing is changed, if it is known here, also if
        the user deleted it. If a client goes on with it here, a capture reads its transcript from the start: the ids of
        messages keep it from storing one twice."""
        with self._db(caller).write() as tx:
            return storage.add_imported(tx, imported)

    def finish(self, caller: Caller, ids: Sequence[str]) -> None:
        """Called after `add`: delete the imported messages of those of these conversations that the user deleted."""
        with self._db(caller).read() as tx:
            deleted = storage.deleted(tx, ids)
        for one in deleted:
            delete_messages(self.notes, caller, one)
        self.notify(caller.user)

    def imported(self, caller: Caller) -> dict[str, str]:
        """By reference, a version of each conversation that was imported and that no capture has gone on with."""
        with self._db(caller).read() as tx:
            return {conversation_ref(id_): last_at for id_, last_at in storage.imported(tx)}

    def remove(self, caller: Caller, ref: str) -> None:
        """Remove an imported conversation from the list; another import may bring it back. One that a capture has gone
        on with, or that the user deleted, stays."""
        with self._db(caller).write() as tx:
            storage.remove_imported(tx, ref.removeprefix(CONVERSATION))
        self.notify(caller.user)

    def _db(self, caller: Caller) -> UserDatabase:
        return self.files.database(caller.user)
