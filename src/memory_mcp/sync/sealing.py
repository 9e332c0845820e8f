"""End-to-end encryption: what a note says is sealed before it leaves a node, with a secret that only the nodes have.

AES-SIV is deterministic: the same value at the same stamp gives the same bytes, so the hub can merge what it cannot
read. Each value is bound to its note, its field and its stamp, and cannot be moved to another.
"""

import base64
import json
import re
import secrets
from dataclasses import replace
from typing import Any

from memory_mcp.errors import Invalid
from memory_mcp.sync.records import NAMESPACE, Record, Register

OPEN = ("archived", NAMESPACE)
NAMED = ("tag", "metadata", "wikilink")  # fields whose names say something
LINKS = ("link", "supersedes")  # ids of notes, which the hub sees anyway
SECRET_BYTES = 32
PREFIX = "mms_"
SECRET = rf"^{PREFIX}[A-Za-z0-9_-]{{42}}[AEIMQUYcgkosw048]$"  # 32 bytes in base64


def new_secret() -> str:
    return PREFIX + base64.urlsafe_b64encode(secrets.token_bytes(SECRET_BYTES)).decode().rstrip("=")


class Seal:
    """Seals and opens with one secret. Raises Invalid if that is none."""

    def __init__(self, secret: str) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import AESSIV
        from cryptography.hazmat.primitives.hashes import SHA512
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        def derived(what: bytes, length: int) -> bytes:
            return HKDF(SHA512(), length=length, salt=None, info=b"memory-mcp sync " + what).derive(_bytes(secret))

        self._cipher = AESSIV(derived(b"bodies", 64))
        self.fingerprint = derived(b"fingerprint", 8).hex()  # by which the hub tells secrets apart

    def seal(self, record: Record) -> Record:
        sealed = dict(self._sealed(record.id, *item) for item in record.registers.items())
        return replace(record, registers=sealed)

    def open(self, record: Record) -> Record:
        """Raises Invalid if anything in it was not sealed with this secret."""
        opened = dict(self._opened(record.id, *item) for item in record.registers.items())
        return replace(record, registers=opened)

    def _sealed(self, id_: str, name: str, register: Register) -> tuple[str, Register]:
        kind, slash, rest = name.partition("/")
        if name in OPEN or kind in LINKS:
            return name, register
        shown = f"{kind}/{self._encrypt(rest, id_, kind)}" if slash and kind in NAMED else name
        if len(register) == 1:
            return shown, register
        return shown, (register[0], {"sealed": self._encrypt(register[1], id_, name, register[0])})

    def _opened(self, id_: str, shown: str, register: Register) -> tuple[str, Register]:
        kind, slash, rest = shown.partition("/")
        if shown in OPEN or kind in LINKS:
            return shown, register
        name = f"{kind}/{self._decrypt(rest, id_, kind)}" if slash and kind in NAMED else shown
        if len(register) == 1:
            return name, register
        value = register[1]
        if not isinstance(value, dict) or not isinstance(sealed := value.get("sealed"), str):
            raise _not_ours()
        return name, (register[0], self._decrypt(sealed, id_, name, register[0]))

    def _encrypt(self, value: Any, *belongs_to: str) -> str:
        sealed = self._cipher.encrypt(
            json.dumps(value, sort_keys=True, ensure_ascii=False).encode(), [text.encode() for text in belongs_to]
        )
        return base64.urlsafe_b64encode(sealed).decode()

    def _decrypt(self, text: str, *belongs_to: str) -> Any:
        from cryptography.exceptions import InvalidTag

        try:
            sealed = base64.urlsafe_b64decode(text)
            return json.loads(self._cipher.decrypt(sealed, [text.encode() for text in belongs_to]))
        except (InvalidTag, ValueError) as exc:
            raise _not_ours() from exc


def _bytes(secret: str) -> bytes:
    if not re.match(SECRET, secret):
        raise Invalid(
            "This is no secret for syncing. Give the one that `sync link --encrypt` printed on the first node.",
            field="secret",
        )
    return base64.urlsafe_b64decode(secret.removeprefix(PREFIX) + "=")


def _not_ours() -> Invalid:
    return Invalid("Not sealed with the secret of this node. Link with the same --secret on every node.")
