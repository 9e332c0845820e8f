"""Has mcp-memory-service write its SQLite file: run by the Python that has it, with the folder to write to."""

# ruff: noqa: E402
import os
import sys
from pathlib import Path

FOLDER = Path(sys.argv[1])
os.environ |= {
    "MCP_MEMORY_STORAGE_BACKEND": "sqlite_vec",
    "MCP_MEMORY_BASE_DIR": str(FOLDER),
    "MCP_MEMORY_ALLOW_HASH_EMBEDDINGS": "1",  # vectors do not move in: no model is needed to make the file
}
import sqlite3

if not hasattr(sqlite3.Connection, "enable_load_extension"):  # as in some builds of Python
    import pysqlite3

    sys.modules["sqlite3"], sys.modules["sqlite3.dbapi2"] = pysqlite3, pysqlite3.dbapi2

import asyncio

from mcp_memory_service.models.memory import Memory
from mcp_memory_service.storage.sqlite_vec import SqliteVecMemoryStorage
from mcp_memory_service.utils.hashing import generate_content_hash

MEMORIES = [
    ("Deploys go out on Tuesdays.", ["ops", "deploy"], "decision", {"source": "chat"}, 1700000000.5),
    ("Ännchen mag grünen Tee ☕", [], "observation", {}, 1710000000.0),
    ("The staging key was rotated.", ["ops"], "observation", {"ticket": {"id": 7}}, 1720000000.25),
    ("This one is deleted again.", ["old"], "observation", {}, 1730000000.0),
]


async def main() -> None:
    storage = SqliteVecMemoryStorage(str(FOLDER / "sqlite_vec.db"))
    await storage.initialize()
    for content, tags, kind, metadata, created_at in MEMORIES:
        hash_ = generate_content_hash(content)
        memory = Memory(content, hash_, tags=tags, memory_type=kind, metadata=metadata, created_at=created_at)
        done, message = await storage.store(memory)
        assert done, message
    done, message = await storage.delete(generate_content_hash(MEMORIES[-1][0]))
    assert done, message
    await storage.close() if asyncio.iscoroutinefunction(storage.close) else storage.close()


asyncio.run(main())
