"""Has mem0 keep memories and list them as JSON: run by the Python that has it, with the folder to write to.

It runs offline: `infer=False` needs no model to extract facts, and the embedder is a fake: vectors do not move in.
"""

# ruff: noqa: E402
import json
import os
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(sys.argv[1])
os.environ |= {"MEM0_TELEMETRY": "False", "MEM0_DIR": str(FOLDER / "mem0"), "OPENAI_API_KEY": "sk-none"}
from mem0 import Memory
from mem0.embeddings.mock import MockEmbeddings

MEMORIES = [
    ("Dev works at TechCorp as a senior engineer", {"user_id": "dev"}, {"type": "professional", "tags": ["work"]}),
    ("Prefers dark mode – überall", {"user_id": "dev"}, {}),
    ("The planner agent books meetings before noon", {"user_id": "dev", "agent_id": "planner"}, {"confidence": 0.9}),
]


class Embedder(MockEmbeddings):  # type: ignore[misc]  # there is no mem0 where types are checked
    def embed(self, text: str, memory_action: Any = None) -> list[float]:
        return [float(sum(map(ord, text)) % 97), 1.0, float(len(text))]


def main() -> None:
    place = {"collection_name": "memories", "path": str(FOLDER / "qdrant"), "embedding_model_dims": 3}
    memory = Memory.from_config({"vector_store": {"provider": "qdrant", "config": place}})
    memory.embedding_model = Embedder()
    for text, whose, metadata in MEMORIES:
        memory.add(text, infer=False, metadata=metadata, **whose)
    found = memory.get_all(filters={"user_id": "dev"})
    (FOLDER / "mem0.json").write_text(json.dumps(found, indent=2, ensure_ascii=False), encoding="utf-8")


main()
