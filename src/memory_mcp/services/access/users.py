"""Users: each has separate data on this server."""

import re
from collections.abc import Callable
from dataclasses import replace
from secrets import token_hex

from memory_mcp.caller import LOCAL_USER
from memory_mcp.engines.transactions import SharedDatabase
from memory_mcp.errors import Conflict, Invalid, NotFound
from memory_mcp.services.access.audit import Audit
from memory_mcp.services.access.model import AuditEvent, Plan, User
from memory_mcp.services.access.storage import users as storage

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")


class Users:
    """Adds, finds and removes users."""

    def __init__(self, db: SharedDatabase, audit: Audit, place: Callable[[str], None] = lambda user: None) -> None:
        """`place` says where a new user's data will be. If it raises, the user is not added."""
        self._db = db
        self._audit = audit
        self._place = place

    def add(self, name: str, plan: Plan = "community") -> User:
        """Raises Conflict if the name is taken; case is ignored."""
        if not NAME.fullmatch(name):
            raise Invalid(
                "A user's name has 1 to 64 letters, digits, '.', '_', '@' and '-'; the first is a letter or a digit.",
                field="name",
            )
        with self._db.write() as tx:
            storage.lock_names(tx)
            if storage.by_name(tx, name):
                raise Conflict(f"There is a user called {name!r} already. Choose another name.", field="name")
            # The id is the name of the user's folder: it must not reveal whose it is.
            user = storage.add(tx, f"u{token_hex(8)}", name, plan)
            self._audit.record_in(tx, LOCAL_USER, AuditEvent("user_added", details={"id": user.id, "name": name}))
            self._place(user.id)
            return user

    def all(self) -> list[User]:
        with self._db.read() as tx:
            return storage.every(tx)

    def get(self, name: str) -> User:
        """Raises NotFound."""
        with self._db.read() as tx:
            user = storage.by_name(tx, name)
        if user is None:
            raise NotFound(f"There is no user called {name!r}. `memory-mcp users list` shows the users.")
        return user

    def set_plan(self, name: str, plan: Plan) -> User:
        user = self.get(name)
        with self._db.write() as tx:
            storage.set_plan(tx, user.id, plan)
        return replace(user, plan=plan)

    def remove(self, name: str) -> User:
        """Remove a user and all their keys. Their data stays."""
        user = self.get(name)
        if user.id == LOCAL_USER:
            raise Invalid("The local user owns the data directory: to remove this user, delete the directory.")
        with self._db.write() as tx:
            storage.remove(tx, user.id)
            self._audit.record_in(
                tx, LOCAL_USER, AuditEvent("user_removed", details={"id": user.id, "name": user.name})
            )
        return user
