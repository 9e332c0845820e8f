"""Users: whoever has a memory of their own on this server."""

import re
from secrets import token_hex

from memory_mcp.access import storage
from memory_mcp.access.model import User
from memory_mcp.caller import LOCAL_USER
from memory_mcp.errors import Conflict, Invalid, NotFound
from memory_mcp.sqlite import Database

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")


class Users:
    """Making, finding and removing users."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def add(self, name: str) -> User:
        """Raises Conflict if the name is taken, whatever its case."""
        if not NAME.fullmatch(name):
            raise Invalid(
                "A user's name has 1 to 64 letters, digits, '.', '_', '@' and '-'; the first is a letter or a digit.",
                field="name",
            )
        with self._db.write() as tx:
            storage.add_user(tx, LOCAL_USER, LOCAL_USER)
            if any(user.name.lower() == name.lower() for user in storage.all_users(tx)):
                raise Conflict(f"There is a user called {name!r} already. Choose another name.", field="name")
            # Folders are called by it: it must not say whose they are.
            return storage.add_user(tx, f"u{token_hex(8)}", name)

    def all(self) -> list[User]:
        with self._db.write() as tx:
            storage.add_user(tx, LOCAL_USER, LOCAL_USER)
            return storage.all_users(tx)

    def get(self, name: str) -> User:
        """Raises NotFound."""
        for user in self.all():
            if user.name.lower() == name.lower():
                return user
        raise NotFound(f"There is no user called {name!r}. `memory-mcp users list` shows who there is.")

    def remove(self, name: str) -> User:
        """Remove a user and all their keys. What they kept stays where it is."""
        user = self.get(name)
        if user.id == LOCAL_USER:
            raise Invalid("The local user is the person whose data directory this is, and cannot be removed.")
        with self._db.write() as tx:
            storage.remove_user(tx, user.id)
        return user
