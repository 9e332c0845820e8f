"""Embedding: texts to vectors, by the built-in model, Ollama or an OpenAI-compatible service, in the background."""

from memory_mcp.embedding.builtin import floor_of
from memory_mcp.embedding.choice import Embedders, Options
from memory_mcp.embedding.model import Embedder, Floor, Space
from memory_mcp.embedding.query_vectors import QueryVectors
from memory_mcp.embedding.worker import Done, EmbeddingWorker, Job, TextQueue

__all__ = [
    "Done",
    "Embedder",
    "Embedders",
    "EmbeddingWorker",
    "Floor",
    "Job",
    "Options",
    "QueryVectors",
    "Space",
    "TextQueue",
    "floor_of",
]
