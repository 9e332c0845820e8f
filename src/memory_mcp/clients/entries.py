"""Entries of servers in a client's configuration: which one is ours, and how it is merged with a new one."""

import re
from pathlib import Path
from typing import Any

from memory_mcp.clients.model import BRIDGE_HEADER, Entry
from memory_mcp.clients.records import ConfigRecord

URL_FIELDS = ("url", "serverUrl", "httpUrl")
OUR_FIELDS = {"type", "command", "args", *URL_FIELDS, "headers", "http_headers", "env"}
"""How the client reaches this server. The user owns every other field of our entry."""


def is_ours(entry: Any, record: ConfigRecord | None) -> bool:
    """Whether it starts this program, has one of our keys or is the entry in the record."""
    if not isinstance(entry, dict):
        return False
    words = [entry.get("command"), *_listed(entry.get("args"))]
    if any(is_our_program(word) for word in words):
        return True
    secrets = [*_values(entry.get("headers")), *_values(entry.get("http_headers")), *_values(entry.get("env"))]
    if any(isinstance(secret, str) and secret.startswith("Bearer mmcp_") for secret in secrets):
        return True
    wrote = {field: part for field, part in record.entry.items() if field in OUR_FIELDS} if record else {}
    return bool(wrote) and all(entry.get(field) == part for field, part in wrote.items())


def is_our_program(word: Any) -> bool:
    return isinstance(word, str) and re.split(r"[\\/]", word)[-1].removesuffix(".exe") in ("memory-mcp", "memory_mcp")


def is_missing(command: Any) -> bool:
    return isinstance(command, str) and Path(command).is_absolute() and not Path(command).exists()


def _listed(part: Any) -> list[Any]:
    return part if isinstance(part, list) else []


def _values(part: Any) -> list[Any]:
    return list(part.values()) if isinstance(part, dict) else []


def summary(entry: Any) -> str:
    """The entry of another server in a few words, without its secrets."""
    if not isinstance(entry, dict):
        return "not a server"
    url = next((str(entry[field]) for field in URL_FIELDS if field in entry), None)
    return url or " ".join(str(word) for word in [entry.get("command", "?"), *_listed(entry.get("args"))][:4])


def merge(there: Entry, wanted: Entry) -> Entry:
    """The wanted entry, with the fields that the user has added to the existing one."""
    merged = {field: part for field, part in there.items() if field not in OUR_FIELDS} | wanted
    for field, own in (("env", BRIDGE_HEADER), ("headers", "Authorization"), ("http_headers", "Authorization")):
        added = there.get(field)
        if not isinstance(added, dict) or (field != "env" and field not in wanted):
            continue
        parts = {name: part for name, part in added.items() if name != own} | wanted.get(field, {})
        if parts or field in wanted:
            merged[field] = parts
    return merged
