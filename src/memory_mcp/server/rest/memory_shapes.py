"""Bodies of requests and responses about one memory."""

from typing import Literal

from pydantic import BaseModel, Field

from memory_mcp.server.arguments import MAX_FIELD_BYTES
from memory_mcp.server.rest.shapes import MemoryRef


class MemoryDeletion(MemoryRef):
    for_good: bool = Field(False, description="Keep no copy: it cannot be restored.")


class MemoryEdit(MemoryRef):
    text: str = Field(
        description="The new text; of an entity, its observations as a list in YAML or JSON.",
        min_length=1,
        max_length=MAX_FIELD_BYTES,
    )
    was: str = Field(description="The text before the edit.", max_length=MAX_FIELD_BYTES)


class MemoryEdited(BaseModel):
    ref: str


class MemoryDeleted(BaseModel):
    ref: str = Field(description="POST /api/memories/restore restores it.")


class MemoryRestored(BaseModel):
    ref: str
    lost: str | None = Field(description="What could not be restored, such as relations to deleted entities.")


class MemoryWriteShown(BaseModel):
    at: str
    action: Literal["created", "updated", "deleted"]
    origin: str = Field(description="Who wrote, such as `cursor with key laptop`.")
    title: str = Field(description="Of what was written: of an entity, one of its observations.")
    is_undo: bool = Field(description="Whether it undid earlier writes.")


class MemoryWritesShown(BaseModel):
    writes: list[MemoryWriteShown] = Field(
        description="The last first. None of what was written before writes were recorded, or by other programs."
    )
