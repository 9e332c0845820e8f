"""A search index: texts found by words (FTS5) and by meaning (vectors), for each user in a SQLite file or in
PostgreSQL.

Two parts of the server use it. The notes family searches its own tables by it (`Tables` has their names).
Recall has its own files, recall.db, with the texts of the other families (`SearchIndex`).
"""

from memory_mcp.services.search_index.files import IndexFile, IndexFiles
from memory_mcp.services.search_index.index import IndexRecreated, SearchIndex
from memory_mcp.services.search_index.model import EmbedText, IndexHit, IndexQuery, IndexText
from memory_mcp.services.search_index.schema import POSTGRES, SCHEMA
from memory_mcp.services.search_index.tables import Tables

__all__ = [
    "POSTGRES",
    "SCHEMA",
    "EmbedText",
    "IndexFile",
    "IndexFiles",
    "IndexHit",
    "IndexQuery",
    "IndexRecreated",
    "IndexText",
    "SearchIndex",
    "Tables",
]
