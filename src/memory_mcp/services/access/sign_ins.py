"""Sign-ins to the web app: by a one-time link or by a password, then by a cookie."""

import hashlib
import math
import secrets
import threading
from collections.abc import Callable
from datetime import timedelta

from memory_mcp.caller import LOCAL_USER
from memory_mcp.clock import Clock, stamp, utc_now
from memory_mcp.engines.transactions import SharedDatabase, Write
from memory_mcp.errors import Invalid, RateLimited
from memory_mcp.services.access.audit import Audit
from memory_mcp.services.access.limits import Limits
from memory_mcp.services.access.model import AuditEvent, NotSignedIn, User
from memory_mcp.services.access.storage import sign_ins as storage
from memory_mcp.services.access.storage import users
from memory_mcp.system.client_networks import network_of

LINK_LIFETIME = timedelta(hours=24)
COOKIE_LIFETIME = timedelta(days=30)
OWN_ACCOUNT = "own."  # how a token begins that is for programs of the server's own account
MAX_ATTEMPTS_PER_ADDRESS = 10  # a minute, from one address
MAX_ATTEMPTS_PER_NAME = 100  # a minute, for one name, from all addresses
LINK_REFUSED = "This link was used before or has expired. `memory-mcp users link NAME` prints a new one."
BCRYPT_ROUNDS = 12
MIN_PASSWORD_CHARS, MAX_PASSWORD_BYTES = 10, 72  # bcrypt reads 72 bytes and no more
_DUMMY_HASH = "$2b$12$Kaq8Ni864HcEt8LbjphLJeHKOKKOiNRyFSa.bmG9e/cVWw4Z9wLta"
"""Checked for unknown names: it takes as long as the hash of a user."""


class SignIns:
    def __init__(self, db: SharedDatabase, limits: Limits, audit: Audit, clock: Clock = utc_now) -> None:
        self._db = db
        self._limits = limits
        self._audit = audit
        self._clock = clock
        self._hashing = threading.Semaphore(2)  # bcrypt is slow on purpose

    def create_link_token(self, user: str, *, is_for_own_account: bool = False) -> str:
        """Create a token that signs the user in once, within a day.

        `is_for_own_account`: servers accept it from programs of their own account only, where they know it.
        """
        token = (OWN_ACCOUNT if is_for_own_account else "") + secrets.token_urlsafe(32)
        with self._db.write() as tx:
            storage.add_link(tx, _digest(token), user, stamp(self._clock() + LINK_LIFETIME))
        return token

    def sign_in_by_link(
        self, token: str, ip: str | None, origin: str = "", is_own_account: Callable[[], bool] = lambda: True
    ) -> str:
        """Create a cookie for the user of the link, valid at this origin (host and port) only. Raises NotSignedIn for a
        link that was used, has expired or never existed, and for one that is for another account."""
        self._count_attempt(ip)
        if token.startswith(OWN_ACCOUNT) and not is_own_account():
            raise NotSignedIn(LINK_REFUSED)
        with self._db.write() as tx:
            user = storage.consume_link(tx, _digest(token))
            if user is None:
                raise NotSignedIn(LINK_REFUSED)
            return self._create_sign_in(tx, user, "link", ip, origin)

    def sign_in_by_password(self, name: str, password: str, ip: str | None, origin: str = "") -> str:
        """Create a cookie for this origin. Raises NotSignedIn, the same for a wrong name and a wrong password, and
        RateLimited."""
        import bcrypt

        self._count_attempt(ip, name)
        given = password.encode()
        with self._db.read() as tx:
            user = users.by_name(tx, name)
            kept = users.password_hash(tx, user.id) if user else None
        with self._hashing:
            fits = (
                bcrypt.checkpw(given[:MAX_PASSWORD_BYTES], (kept or _DUMMY_HASH).encode())
                and len(given) <= MAX_PASSWORD_BYTES
            )
        if user is None or kept is None or not fits:
            raise NotSignedIn(
                "The name or the password is wrong. `memory-mcp users password NAME` sets one, "
                "`memory-mcp users link NAME` prints a link that needs none."
            )
        with self._db.write() as tx:
            return self._create_sign_in(tx, user.id, "password", ip, origin)

    def user_of(self, cookie: str, origin: str = "") -> User:
        """The user of a cookie. Raises NotSignedIn, also for a cookie of another origin."""
        with self._db.read() as tx:
            user = storage.user_of(tx, _bound_digest(cookie, origin), stamp(self._clock()))
            found = users.by_id(tx, user) if user else None
        if found is None:
            raise NotSignedIn("You are no longer signed in. Sign in again.")
        return found

    def sign_out(self, cookie: str, origin: str = "") -> None:
        with self._db.write() as tx:
            storage.remove(tx, _bound_digest(cookie, origin))

    def set_password(self, user: str, password: str) -> None:
        """Replace the password and end all sign-ins of the user. Raises Invalid for one too short or too long."""
        import bcrypt

        if not len(password) >= MIN_PASSWORD_CHARS or len(password.encode()) > MAX_PASSWORD_BYTES:
            raise Invalid(
                f"A password has at least {MIN_PASSWORD_CHARS} characters and at most {MAX_PASSWORD_BYTES} bytes.",
                field="password",
            )
        hashed = bcrypt.hashpw(password.encode(), bcrypt.gensalt(BCRYPT_ROUNDS)).decode()
        with self._db.write() as tx:
            users.set_password(tx, user, hashed)
            storage.remove_all_of(tx, user)
            self._audit.record_in(tx, user, AuditEvent("password_set"))

    def is_signed_in(self, user: str) -> bool:
        """Whether any browser is signed in as the user now."""
        with self._db.read() as tx:
            return storage.has_signed_in(tx, user, stamp(self._clock()))

    def signed_in_users(self) -> set[str]:
        """The users that any browser is signed in as now."""
        with self._db.read() as tx:
            return storage.signed_in_users(tx, stamp(self._clock()))

    def users_with_password(self) -> set[str]:
        with self._db.read() as tx:
            return users.with_password(tx)

    def is_set_up(self) -> bool:
        """Whether the local user has signed in before, or has a password."""
        with self._db.read() as tx:
            return storage.has_signed_in(tx, LOCAL_USER) or users.password_hash(tx, LOCAL_USER) is not None

    def _create_sign_in(self, tx: Write, user: str, how: str, ip: str | None, origin: str) -> str:
        cookie = secrets.token_urlsafe(32)
        storage.add(tx, _bound_digest(cookie, origin), user, stamp(self._clock() + COOKIE_LIFETIME))
        self._audit.record_in(tx, user, AuditEvent("signed_in", ip=ip, details={"by": how}))
        return cookie

    def _count_attempt(self, ip: str | None, name: str | None = None) -> None:
        """The limit for a name is much higher than that for an address, or anyone could lock the user out."""
        counted = [(f"sign-in from {network_of(ip)}", MAX_ATTEMPTS_PER_ADDRESS)]
        if name:
            counted.append((f"sign-in as {_digest(name.lower()).hex()}", MAX_ATTEMPTS_PER_NAME))
        for who, limit in counted:
            allowance = self._limits.take(who, limit)
            if allowance.is_spent:
                raise RateLimited(
                    f"Too many attempts to sign in. Wait {math.ceil(allowance.retry_after)} s, or use a link that "
                    "`memory-mcp users link NAME` prints.",
                    retry_after=allowance.retry_after,
                )


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()


def _bound_digest(cookie: str, origin: str) -> bytes:
    """The digest of a cookie at one origin: browsers send a cookie to every port of a host."""
    return _digest(f"{origin}\n{cookie}")


def sign_in_url(base: str, token: str) -> str:
    return f"{base}/sign-in?token={token}"
