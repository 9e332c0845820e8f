"""The addresses of notes, namespaces and tags as resources, and the references of conversations."""

from urllib.parse import quote

from memory_mcp.families.notes.model import tag_key

RECENT_URI = "memory://recent"
CONVERSATION = "conversation:"


def note_uri(id_: str) -> str:
    return f"memory://note/{quote(id_, safe='')}"


def conversation_ref(id_: str) -> str:
    """Of the messages that hooks stored of a conversation."""
    return f"{CONVERSATION}{id_}"


def namespace_uri(namespace: str) -> str:
    return f"memory://namespace/{quote(namespace, safe='')}"


def tag_uri(tag: str) -> str:
    """Case-insensitive, as tags are."""
    return f"memory://tag/{quote(tag_key(tag), safe='')}"
