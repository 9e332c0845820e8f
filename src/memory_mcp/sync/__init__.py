"""Sync between nodes: records and how they merge, the node's side, the hub's side."""

from memory_mcp.sync.node import LINK_FILE, Status, Sync
from memory_mcp.sync.worker import Worker

__all__ = ["LINK_FILE", "Status", "Sync", "Worker"]
