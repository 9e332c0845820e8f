"""The tables of a search index, as a file calls them. `embedding_space`, `vector_changes` and `embed_queue` are called
so in every file."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Tables:
    texts: str  # what is searched: rows with `seq`, `title` and `content`
    words: str  # FTS5, without content: title, content, tags, parts and, where texts have one, context
    vectors: str  # a row for each part of a text
    owner: str  # the column of `vectors` and of `vector_changes` that names a text
    queue_owner: str  # the column of `embed_queue` that names a text
    live: str = "TRUE"  # the condition that a text is to be found
    has_context: bool = False  # the words of what was written just before a text are indexed with it

    @property
    def weights(self) -> str:
        """Of the columns of `words`, as its bm25 has them."""
        return "1.0, 1.0, 1.0, 0.5, 0.5" if self.has_context else "1.0, 1.0, 1.0, 0.5"
