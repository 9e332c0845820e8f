"""API keys: mmcp_<12-character id>_<43-character secret>. Of the secret, only a bcrypt hash is stored."""

import hashlib
import re
import secrets
import string
import threading
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import timedelta

from memory_mcp.caller import ALL_SCOPES, LOCAL_USER, Scope
from memory_mcp.clock import Clock, stamp, utc_now
from memory_mcp.engines.transactions import SharedDatabase
from memory_mcp.errors import Invalid, NotFound, Unavailable
from memory_mcp.services.access.audit import Audit
from memory_mcp.services.access.model import AuditEvent, IssuedKey, Key, KeyRefused, Maker
from memory_mcp.services.access.storage import keys as storage
from memory_mcp.text.names import READABLE_PATTERN, hidden_character, new_namespace

RAW_KEY = re.compile(r"mmcp_([a-z0-9]{12})_([A-Za-z0-9_-]{43})")
BCRYPT_ROUNDS = 10  # the secret has 256 random bits: more rounds add nothing and slow down the first request
_DUMMY_HASH = "$2b$10$4URIlwvE23MrFRiP/PnBrO86CWKbECc5N3BWQMIvz3N3rn.9XKdoC"
"""Checked for unknown ids: it takes as long as the hash of a key."""
CACHE_TTL_S = 0.5  # how long a key's row is cached: a revocation must work in every process within a second
USE_WRITE_INTERVAL_S = 60.0  # between two writes of last_used_at
MAX_CACHED_SECRETS = 10_000
USE_AUDIT_INTERVAL_S = 3600.0  # between two audit records of one key used from one address
MAX_NAME_CHARS = 100
LIFETIME = r"^[1-9][0-9]{0,3}[mhdw]$"
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


@dataclass
class _Verified:
    key: Key
    read_at: float


class Keys:
    """Creates, verifies and revokes keys."""

    def __init__(
        self,
        db: SharedDatabase,
        audit: Audit,
        clock: Clock = utc_now,
        publish: Callable[[str], None] = lambda user: None,
    ) -> None:
        """`publish` is called with each user whose keys were created, revoked or used."""
        self._db = db
        self._audit = audit
        self._clock = clock
        self._publish = publish
        self._verified: dict[bytes, _Verified] = {}  # by the SHA-256 of the raw key
        self._use_written_at: dict[str, float] = {}
        self._use_audited_at: dict[tuple[str, str | None], float] = {}
        self._hashing = threading.Semaphore(2)  # bcrypt is slow on purpose: a flood of bad keys may use two cores

    def create(
        self,
        *,
        name: str,
        user: str = LOCAL_USER,
        scopes: frozenset[Scope] = ALL_SCOPES,
        families: Iterable[str] = (),
        namespace: str = "default",
        is_confined: bool = False,
        expires_at: str | None = None,
        made_by: Maker = "person",
        ip: str | None = None,
    ) -> IssuedKey:
        """Create a key. Raises Invalid for a name with unreadable characters or an invalid namespace."""
        import bcrypt

        if len(name) > MAX_NAME_CHARS or not re.fullmatch(READABLE_PATTERN, name) or hidden_character(name):
            raise Invalid(f"A key's name has 1 to {MAX_NAME_CHARS} characters that can be read.", field="name")
        key_id = "".join(secrets.choice(string.ascii_lowercase + string.digits) for _ in range(12))
        secret = secrets.token_urlsafe(32)
        raw = f"mmcp_{key_id}_{secret}"
        key = Key(
            id=key_id,
            user=user,
            name=name,
            key_prefix=raw[:13],
            secret_hash=bcrypt.hashpw(secret.encode(), bcrypt.gensalt(BCRYPT_ROUNDS)).decode(),
            scopes=scopes,
            families=frozenset(families),
            made_by=made_by,
            created_at=stamp(self._clock()),
            expires_at=expires_at,
            namespace=new_namespace(namespace),
            is_confined=is_confined,
        )
        with self._db.write() as tx:
            storage.add(tx, key)
            self._audit.record_in(tx, user, AuditEvent("key_created", ip=ip, details={"id": key_id, "name": name}))
        self._publish(user)
        return IssuedKey(key, raw)

    def all(self) -> list[Key]:
        with self._db.read() as tx:
            return storage.every(tx)

    def of(self, user: str) -> list[Key]:
        with self._db.read() as tx:
            return storage.of(tx, user)

    def active(self) -> list[Key]:
        with self._db.read() as tx:
            return storage.active(tx, stamp(self._clock()))

    def refused_ids(self, ids: Collection[str]) -> set[str]:
        """Those of these keys that are not accepted any more."""
        with self._db.read() as tx:
            return set(ids) - storage.active_ids(tx, ids, stamp(self._clock()))

    def forget(self, user: str) -> None:
        """Read this user's keys again when they are next used: another server has changed them."""
        for known in list(self._verified.values()):
            if known.key.user == user:
                known.read_at = -CACHE_TTL_S

    def revoke(self, key_id: str, user: str | None = None, ip: str | None = None) -> None:
        """Revoke a key for good, in every process within a second. Raises NotFound for one that is not this user's."""
        with self._db.write() as tx:
            owner = storage.revoke(tx, key_id, user)
            if owner is None:
                raise NotFound(f"No active key has the id {key_id!r}. The list of keys shows the ids.")
            self._audit.record_in(tx, owner, AuditEvent("key_revoked", ip=ip, details={"id": key_id}))
        self._publish(owner)

    def check(self, raw: str | None, ip: str | None = None) -> Key:
        """The key of a bearer token. Raises KeyRefused, whose code says why it is not accepted."""
        if not raw:
            raise KeyRefused("Send your key as 'Authorization: Bearer mmcp_…'.", code="missing_bearer")
        verified = self._verify(raw)
        now = stamp(self._clock())
        if verified.key.revoked_at is not None:
            raise KeyRefused("This key was revoked. Create a new one with `memory-mcp keys create`.", code="revoked")
        if not verified.key.is_active(now):
            raise KeyRefused("This key has expired. Create a new one with `memory-mcp keys create`.", code="expired")
        self._record_use(verified.key, ip)
        return verified.key

    def cached(self, raw: str | None, ip: str | None = None) -> Key | None:
        """The key of a bearer token if memory alone says that it is accepted. Returns at once; None: `check` it."""
        known = self._verified.get(_digest(raw)) if raw else None
        if known is None or time.monotonic() - known.read_at > CACHE_TTL_S:
            return None
        key = known.key
        return key if key.is_active(stamp(self._clock())) and not any(self._due_records(key, ip)) else None

    def verified_id(self, raw: str | None) -> str | None:
        """The id of a key that this process has verified before. The key may have expired or been revoked since."""
        known = self._verified.get(_digest(raw)) if raw else None
        return known.key.id if known else None

    def _verify(self, raw: str) -> _Verified:
        digest = _digest(raw)
        known = self._verified.get(digest)
        if known is None:
            known = self._verify_new(raw, digest)
        elif time.monotonic() - known.read_at > CACHE_TTL_S:
            known.key = self._read(known.key.id)
            known.read_at = time.monotonic()
        return known

    def _verify_new(self, raw: str, digest: bytes) -> _Verified:
        import bcrypt

        shape = RAW_KEY.fullmatch(raw)
        if shape is None:
            raise _unknown()
        key = self._find(shape[1])
        with self._hashing:
            if known := self._verified.get(digest):  # another request of the same client was faster
                return known
            fits = bcrypt.checkpw(shape[2].encode(), (key.secret_hash if key else _DUMMY_HASH).encode())
            if key is None or not fits:
                raise _unknown()
            if len(self._verified) >= MAX_CACHED_SECRETS:
                self._verified.clear()
            self._verified[digest] = known = _Verified(key, time.monotonic())
            return known

    def _find(self, key_id: str) -> Key | None:
        with self._db.read() as tx:
            return storage.get(tx, key_id)

    def _read(self, key_id: str) -> Key:
        key = self._find(key_id)
        if key is None:
            raise _unknown()
        return key

    def _due_records(self, key: Key, ip: str | None) -> tuple[bool, bool]:
        """Whether the time of use is to be written, and the use to be audited."""
        now = time.monotonic()
        return (
            now - self._use_written_at.get(key.id, -USE_WRITE_INTERVAL_S) >= USE_WRITE_INTERVAL_S,
            now - self._use_audited_at.get((key.id, ip), -USE_AUDIT_INTERVAL_S) >= USE_AUDIT_INTERVAL_S,
        )

    def _record_use(self, key: Key, ip: str | None) -> None:
        now = time.monotonic()
        must_write, must_audit = self._due_records(key, ip)
        if not (must_write or must_audit):
            return
        self._use_written_at[key.id] = now
        try:
            with self._db.write() as tx:
                storage.set_last_used(tx, key.id)
                if must_audit:
                    self._audit.record_in(
                        tx, key.user, AuditEvent("key_used", key_id=key.id, ip=ip, details={"name": key.name})
                    )
        except Unavailable:  # the request is served even if its use cannot be recorded
            return
        self._publish(key.user)
        if must_audit:
            if len(self._use_audited_at) >= MAX_CACHED_SECRETS:
                self._use_audited_at.clear()
            self._use_audited_at[key.id, ip] = now


def _digest(raw: str) -> bytes:
    return hashlib.sha256(raw.encode("utf-8", "replace")).digest()


def lifetime(text: str | None, clock: Clock = utc_now) -> str | None:
    """The time at which a lifetime such as '90d' ends; None if it never does. Raises Invalid."""
    if not text:
        return None
    if not re.fullmatch(LIFETIME, text):
        raise Invalid(f"A lifetime is a number and m, h, d or w, such as 90d; got {text!r}.", field="expires")
    return stamp(clock() + timedelta(**{_UNITS[text[-1]]: int(text[:-1])}))


def _unknown() -> KeyRefused:
    return KeyRefused("This server does not know this key. Check that it was copied whole.", code="invalid_token")
