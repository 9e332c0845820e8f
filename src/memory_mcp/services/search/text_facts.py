from dataclasses import dataclass


@dataclass(frozen=True)
class TextFacts:
    """When a text was written, and where it belongs. None for unknown facts."""

    created_at: str | None = None  # ISO 8601
    updated_at: str | None = None
    namespace: str | None = None
    source: str | None = None


UNKNOWN_FACTS = TextFacts()
