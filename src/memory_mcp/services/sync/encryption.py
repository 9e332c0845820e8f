"""End-to-end encryption: a node seals its notes, with a secret that only the nodes have, before it sends them.

AES-SIV is deterministic: the same value at the same stamp gives the same bytes, so the hub can merge values it cannot
read. Every register is sealed, as are its removal, the note's namespace (its name stays readable beside it) and the
note's deletion; times, importance and the creating client are not. Each is bound to its note, field and stamp, so the
hub cannot forge, change or move any of them.

Values sealed in the first format can still be opened. That format left removals, moves, links and deletions unsealed;
these are refused. At equal stamps a value of this format wins in `records.merge`: sending a note again upgrades it.
"""

import base64
import json
import re
import secrets
from dataclasses import replace
from typing import Any

from memory_mcp.errors import Invalid
from memory_mcp.services.sync.records import DELETION, NAMESPACE, OPEN, NoteRecord, Register

FORMAT = "2"
SEALED = "sealed2"  # sorts after SEALED_AT_FIRST, so it wins at equal stamps
SEALED_AT_FIRST = "sealed"
NAMED = (
    "tag",
    "metadata",
    "wikilink",
)  # fields with names to encrypt; the names of link fields are ids, which the hub sees
SECRET_BYTES = 32
PREFIX = "mms_"
SECRET = rf"^{PREFIX}[A-Za-z0-9_-]{{42}}[AEIMQUYcgkosw048]$"  # 32 bytes in base64


def new_secret() -> str:
    return PREFIX + base64.urlsafe_b64encode(secrets.token_bytes(SECRET_BYTES)).decode().rstrip("=")


class Seal:
    """Seals and opens records with one secret. Raises Invalid if the secret is malformed."""

    def __init__(self, secret: str) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import AESSIV
        from cryptography.hazmat.primitives.hashes import SHA512
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        def derive(purpose: bytes, length: int) -> bytes:
            return HKDF(SHA512(), length=length, salt=None, info=b"memory-mcp sync " + purpose).derive(_bytes(secret))

        self._cipher = AESSIV(derive(b"bodies", 64))
        self.fingerprint = derive(b"fingerprint", 8).hex()  # lets the hub distinguish secrets

    def seal(self, record: NoteRecord) -> NoteRecord:
        sealed = dict(self._seal_register(record.id, *item) for item in record.registers.items())
        if record.deleted:
            sealed[DELETION] = record.deleted, {SEALED: self._encrypt([], FORMAT, record.id, DELETION, record.deleted)}
        return replace(record, registers=sealed)

    def open(self, record: NoteRecord) -> NoteRecord:
        """Raises Invalid if any part of the record was not sealed with this secret."""
        opened = dict(self._open_register(record.id, *item) for item in record.registers.items())
        proof = opened.pop(DELETION, None)
        if record.deleted and (proof is None or proof[0] != record.deleted):
            raise _not_sealed("its deletion")
        return replace(record, registers=opened)

    def _seal_register(self, id_: str, name: str, register: Register) -> tuple[str, Register]:
        kind, slash, rest = name.partition("/")
        shown = f"{kind}/{self._encrypt(rest, id_, kind)}" if slash and kind in NAMED else name
        value: dict[str, Any] = {SEALED: self._encrypt(list(register[1:]), FORMAT, id_, name, register[0])}
        if name == NAMESPACE and len(register) == 2:
            value[OPEN] = register[1]
        return shown, (register[0], value)

    def _open_register(self, id_: str, shown: str, register: Register) -> tuple[str, Register]:
        kind, slash, rest = shown.partition("/")
        name = f"{kind}/{self._decrypt(rest, id_, kind)}" if slash and kind in NAMED else shown
        stamp = register[0]
        value = register[1] if len(register) == 2 and isinstance(register[1], dict) else {}
        if isinstance(sealed := value.get(SEALED), str):
            opened = self._decrypt(sealed, FORMAT, id_, name, stamp)
            if name == NAMESPACE and opened != [value[one] for one in (OPEN,) if one in value]:
                raise _not_ours()  # the hub shows the note under another namespace
            return name, (stamp, opened[0]) if opened else (stamp,)
        if isinstance(sealed := value.get(SEALED_AT_FIRST), str):
            return name, (stamp, self._decrypt(sealed, id_, name, stamp))
        raise _not_sealed("a part of it")

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
        except (InvalidTag, ValueError, RecursionError) as exc:
            raise _not_ours() from exc


def _bytes(secret: str) -> bytes:
    if not re.match(SECRET, secret):
        raise Invalid(
            "This is not a sync secret. Give the one that `sync link --encrypt` printed on the first node.",
            field="secret",
        )
    return base64.urlsafe_b64decode(secret.removeprefix(PREFIX) + "=")


def _not_ours() -> Invalid:
    return Invalid("Not sealed with the secret of this node. Link with the same --secret on every node.")


def _not_sealed(part: str) -> Invalid:
    return Invalid(
        f"Refused: {part} is not sealed. The hub forged it, or a node with an older version of Memory MCP wrote it. "
        "Update every node, and run `memory-mcp sync resync` on the one that wrote it."
    )
