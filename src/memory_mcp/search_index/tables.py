"""The names of a search index's tables in a file. `embedding_space`, `vector_changes` and `embed_queue` have the same
names in every file."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Tables:
    texts: str  # the searched texts: rows with `seq`, `title` and `content`
    words: str  # contentless FTS5: title, content, tags, parts and, if `has_context`, context
    vectors: str  # a row for each part of a text
    owner: str  # the column of `vectors` and of `vector_changes` that names a text
    queue_owner: str  # the column of `embed_queue` that names a text
    live: str = "TRUE"  # the condition for texts that can be found
    has_context: bool = False  # the words of the text before are indexed with each text

    @property
    def weights(self) -> str:
        """The weights of the columns of `words`, as in its bm25."""
        return "1.0, 1.0, 1.0, 0.5, 0.5" if self.has_context else "1.0, 1.0, 1.0, 0.5"
