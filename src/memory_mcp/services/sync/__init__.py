"""Sync between nodes: records and how they merge, the node's side, the hub's side."""

from memory_mcp.services.sync.node import LINK_FILE, Sync, SyncState
from memory_mcp.services.sync.worker import SyncWorker

__all__ = ["LINK_FILE", "Sync", "SyncState", "SyncWorker"]
