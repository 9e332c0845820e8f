"""Embedding: texts to vectors, by the built-in model, Ollama or an OpenAI-compatible service, in the background."""

from memory_mcp.embedding.choice import Embedders, Options
from memory_mcp.embedding.model import Embedder, Space
from memory_mcp.embedding.queries import Queries
from memory_mcp.embedding.worker import Done, Job, Pile, Worker

__all__ = ["Done", "Embedder", "Embedders", "Job", "Options", "Pile", "Queries", "Space", "Worker"]
