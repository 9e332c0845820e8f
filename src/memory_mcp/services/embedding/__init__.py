"""Embedding: texts to vectors, by the built-in model, Ollama or an OpenAI-compatible service, in the background."""

from memory_mcp.services.embedding.builtin import floor_of
from memory_mcp.services.embedding.choice import Embedders, EmbeddingOptions
from memory_mcp.services.embedding.model import Embedder, RelevanceFloor, Space
from memory_mcp.services.embedding.query_vectors import QueryVectors
from memory_mcp.services.embedding.worker import EmbeddedJob, EmbeddingJob, EmbeddingWorker, TextQueue

__all__ = [
    "EmbeddedJob",
    "Embedder",
    "Embedders",
    "EmbeddingJob",
    "EmbeddingOptions",
    "EmbeddingWorker",
    "QueryVectors",
    "RelevanceFloor",
    "Space",
    "TextQueue",
    "floor_of",
]
