"""memory://vault, memory://vault/{key} and memory://session/{session_id}."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from urllib.parse import parse_qsl

from memory_mcp.errors import Invalid, NotFound
from memory_mcp.families.family import (
    Call,
    Document,
    ListedResource,
    ResourcePage,
    Template,
    decoded,
    is_number,
    parse_number_cursor,
)
from memory_mcp.families.vault.model import VAULT_URI, Range, session_uri, uri_of
from memory_mcp.families.vault.operations import MemoryPage, Vault

MAX_MEMORIES = 1000  # in one answer
MAX_COMPLETIONS = 100  # the protocol's bound

TEMPLATES = (
    Template(f"{VAULT_URI}{{?offset,limit}}", "vault", "All vault memories, a page at a time."),
    Template(f"{VAULT_URI}/{{key}}", "vault_memory", "One vault memory by its percent-encoded key."),
    Template("memory://session/{session_id}", "session", "All memories of your own session."),
)


def list_page(call: Call[Vault], cursor: str | None, limit: int) -> ResourcePage:
    """The vault, this session, then one entry per vault memory in the order they were first written."""
    first = (
        []
        if cursor
        else [
            ListedResource(VAULT_URI, "vault", "All vault memories (?offset=&limit=)."),
            ListedResource(session_uri(call.session.id), "session", "All memories of this session."),
        ]
    )
    limit -= len(first)
    rows = call.operations.keys_after(call.caller, parse_number_cursor(cursor), limit + 1)
    entries = [ListedResource(uri_of(key), key) for _, key in rows[:limit]]
    return ResourcePage([*first, *entries], str(rows[limit - 1][0]) if len(rows) > limit else None)


def read(call: Call[Vault], uri: str) -> Document:
    """Raises NotFound for unknown addresses, and for the memories of other sessions."""
    address, _, query = uri.partition("?")
    if address == VAULT_URI:
        wanted = _range(query)
        part = call.operations.page(call.caller, wanted)
        origins = call.operations.origins(call.caller, [memory.key for memory in part.memories])
        return _array(uri, address, wanted, part, origins)
    if address.startswith(f"{VAULT_URI}/"):
        memory = call.operations.get(call.caller, decoded(address.removeprefix(f"{VAULT_URI}/")))
        origins = call.operations.origins(call.caller, [memory.key])
        meta = {"memory-mcp/origin": origins[memory.key]} if origins else {}
        return Document(uri, json.dumps(asdict(memory), ensure_ascii=False), meta=meta)
    if address.startswith("memory://session/"):
        if decoded(address.removeprefix("memory://session/")) != call.session.id:
            raise NotFound("There is no such session here.", hint="Yours is in resources/list.")
        wanted = _range(query)
        return _array(uri, address, wanted, call.operations.session_page(call.caller, call.session, wanted))
    raise NotFound("No resource has this address.", hint="resources/list shows what there is.")


def subscription_uri(call: Call[Vault], uri: str) -> str | None:
    """The address of the vault, of any memory in it, even a future one, or of the caller's own session."""
    address, _, _ = uri.partition("?")
    if address == VAULT_URI:
        return VAULT_URI
    if address.startswith(f"{VAULT_URI}/"):
        return uri_of(decoded(address.removeprefix(f"{VAULT_URI}/")))
    if address.startswith("memory://session/"):
        named = decoded(address.removeprefix("memory://session/"))
        return session_uri(named) if named == call.session.id else None
    return None


def complete(call: Call[Vault], name: str, value: str) -> list[str]:
    if name == "key":
        return call.operations.keys_starting(call.caller, value, MAX_COMPLETIONS + 1)
    if name == "session_id" and call.session.id.startswith(value):
        return [call.session.id]
    return []


def _array(
    uri: str, address: str, wanted: Range, part: MemoryPage, origins: Mapping[str, str] | None = None
) -> Document:
    """`origins` is who wrote the memories, by key."""
    meta: dict[str, object] = {"memory-mcp/total": part.total}
    if origins:
        meta["memory-mcp/origins"] = origins
    if part.next_offset is not None:
        meta["memory-mcp/next"] = f"{address}?offset={part.next_offset}&limit={wanted.limit}"
    return Document(uri, json.dumps([asdict(memory) for memory in part.memories], ensure_ascii=False), meta=meta)


def _range(query: str) -> Range:
    params = dict(parse_qsl(query, keep_blank_values=True))
    return Range(
        offset=_number("offset", params.get("offset") or "0", 0, 2**53),
        limit=_number("limit", params.get("limit") or "100", 1, MAX_MEMORIES),
    )


def _number(name: str, text: str, minimum: int, maximum: int) -> int:
    if not (is_number(text) and minimum <= int(text) <= maximum):
        raise Invalid(f"{name} must be a whole number from {minimum} to {maximum}.", field=name)
    return int(text)
