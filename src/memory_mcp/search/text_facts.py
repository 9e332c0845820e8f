from dataclasses import dataclass


@dataclass(frozen=True)
class TextFacts:
    """Of a text that can be found: when it was written, and where it belongs; None for what is not known."""

    created_at: str | None = None  # ISO 8601
    updated_at: str | None = None
    namespace: str | None = None
    source: str | None = None


UNKNOWN_FACTS = TextFacts()
