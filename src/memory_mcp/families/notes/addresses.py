"""The addresses of notes, namespaces and tags as resources."""

from urllib.parse import quote

from memory_mcp.families.notes.model import tag_key

RECENT_URI = "memory://recent"


def note_uri(id_: str) -> str:
    return f"memory://note/{quote(id_, safe='')}"


def namespace_uri(namespace: str) -> str:
    return f"memory://namespace/{quote(namespace, safe='')}"


def tag_uri(tag: str) -> str:
    """Case-insensitive, as tags are."""
    return f"memory://tag/{quote(tag_key(tag), safe='')}"
