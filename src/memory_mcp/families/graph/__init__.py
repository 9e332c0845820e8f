"""Graph: a knowledge graph per project, each in a file of its own."""

from memory_mcp.families.graph.operations import Graph

__all__ = ["Graph"]
