"""Access: users, keys and tenants."""

from memory_mcp.access.keys import Keys
from memory_mcp.access.model import IssuedKey, Key, Refused
from memory_mcp.access.tenants import Tenants

__all__ = ["IssuedKey", "Key", "Keys", "Refused", "Tenants"]
