"""Access: users, keys and tenants."""

from memory_mcp.access.keys import Keys
from memory_mcp.access.model import IssuedKey, Key, Refused, User
from memory_mcp.access.tenants import Tenants, folder_of
from memory_mcp.access.users import Users

__all__ = ["IssuedKey", "Key", "Keys", "Refused", "Tenants", "User", "Users", "folder_of"]
