from dataclasses import dataclass


@dataclass(frozen=True)
class TextFacts:
    """When a text was written, where it belongs, and who wrote it last. None for unknown facts."""

    created_at: str | None = None  # ISO 8601
    updated_at: str | None = None
    namespace: str | None = None
    source: str | None = None
    session_id: str | None = None  # that wrote it last
    written_at: str | None = None  # by that session, to the millisecond


UNKNOWN_FACTS = TextFacts()
