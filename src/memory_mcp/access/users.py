"""Users: whoever has a memory of their own on this server."""

import re
from dataclasses import replace
from secrets import token_hex

from memory_mcp.access.audit import Audit
from memory_mcp.access.model import AuditEvent, Plan, User
from memory_mcp.access.storage import users as storage
from memory_mcp.caller import LOCAL_USER
from memory_mcp.engines.sqlite import Database
from memory_mcp.errors import Conflict, Invalid, NotFound

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")


class Users:
    """Making, finding and removing users."""

    def __init__(self, db: Database, audit: Audit) -> None:
        self._db = db
        self._audit = audit

    def add(self, name: str, plan: Plan = "community") -> User:
        """Raises Conflict if the name is taken, whatever its case."""
        if not NAME.fullmatch(name):
            raise Invalid(
                "A user's name has 1 to 64 letters, digits, '.', '_', '@' and '-'; the first is a letter or a digit.",
                field="name",
            )
        with self._db.write() as tx:
            if storage.by_name(tx, name):
                raise Conflict(f"There is a user called {name!r} already. Choose another name.", field="name")
            # Folders are called by it: it must not say whose they are.
            user = storage.add(tx, f"u{token_hex(8)}", name, plan)
            self._audit.note(tx, LOCAL_USER, AuditEvent("user_added", details={"id": user.id, "name": name}))
            return user

    def all(self) -> list[User]:
        with self._db.read() as tx:
            return storage.every(tx)

    def get(self, name: str) -> User:
        """Raises NotFound."""
        with self._db.read() as tx:
            user = storage.by_name(tx, name)
        if user is None:
            raise NotFound(f"There is no user called {name!r}. `memory-mcp users list` shows who there is.")
        return user

    def set_plan(self, name: str, plan: Plan) -> User:
        user = self.get(name)
        with self._db.write() as tx:
            storage.set_plan(tx, user.id, plan)
        return replace(user, plan=plan)

    def remove(self, name: str) -> User:
        """Remove a user and all their keys. What they kept stays where it is."""
        user = self.get(name)
        if user.id == LOCAL_USER:
            raise Invalid("The local user is the person whose data directory this is: to remove them, delete that.")
        with self._db.write() as tx:
            storage.remove(tx, user.id)
            self._audit.note(tx, LOCAL_USER, AuditEvent("user_removed", details={"id": user.id, "name": user.name}))
        return user
