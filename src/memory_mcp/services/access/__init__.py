"""Access: users, keys, sign-ins, tenants, limits and the audit log."""

from memory_mcp.services.access.audit import Audit
from memory_mcp.services.access.keys import Keys
from memory_mcp.services.access.limits import Limits
from memory_mcp.services.access.model import (
    REQUESTS_PER_MINUTE,
    Allowance,
    AuditEvent,
    AuditRecord,
    IssuedKey,
    Key,
    KeyRefused,
    NotSignedIn,
    Plan,
    User,
)
from memory_mcp.services.access.sign_ins import SignIns
from memory_mcp.services.access.tenants import Tenants, delete_folder, folder_of
from memory_mcp.services.access.users import Users

__all__ = [
    "REQUESTS_PER_MINUTE",
    "Allowance",
    "Audit",
    "AuditEvent",
    "AuditRecord",
    "IssuedKey",
    "Key",
    "KeyRefused",
    "Keys",
    "Limits",
    "NotSignedIn",
    "Plan",
    "SignIns",
    "Tenants",
    "User",
    "Users",
    "delete_folder",
    "folder_of",
]
