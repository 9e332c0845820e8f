"""The vault: facts under a key, for good or for this session."""

from memory_mcp.families.vault.operations import Vault

__all__ = ["Vault"]
