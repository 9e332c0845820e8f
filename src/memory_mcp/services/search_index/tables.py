"""The names of a search index's tables in a database. `embedding_space`, `vector_changes` and `embed_queue` have the
same names in every SQLite file."""

from dataclasses import dataclass

from memory_mcp.engines.texts import WordColumn, WordTable

CONTEXT_DEGREE = 0.6  # of a word of the text before, relative to one of the text itself
OWN_COLUMNS = (
    WordColumn("title", "A"),
    WordColumn("content", "A"),
    WordColumn("tags", "A"),
    WordColumn("parts", "B", weight=0.5),
)
CONTEXT_COLUMN = WordColumn("context", "D", weight=0.5, degree=CONTEXT_DEGREE)


@dataclass(frozen=True)
class Tables:
    texts: str  # the searched texts: rows with `seq`, `title` and `content`
    words: WordTable
    vectors: str
    """A row for each chunk of a text: the column `part` has its number, or -1 for the text together with the one before
    it."""
    owner: str  # the column of `vectors` and of `vector_changes` that names a text
    queue_owner: str  # the column of `embed_queue` that names a text
    live: str = "TRUE"  # the condition for texts that can be found
    before: str | None = None  # the condition for the text `earlier` that was written just before the text `later`
    facts: str = ""  # columns of the text `later` that its family needs to rank it

    @property
    def has_context(self) -> bool:
        """Whether a text is found by the text before it, too."""
        return self.before is not None
