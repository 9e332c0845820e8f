"""An index of texts that are stored elsewhere: a cache, which may be deleted and rebuilt at any time."""

import threading
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress

from memory_mcp.engines.transactions import UserDatabases
from memory_mcp.errors import Unavailable, Unusable
from memory_mcp.services.embedding import Embedders
from memory_mcp.services.search import ranking, snippets
from memory_mcp.services.search_index import hybrid_search
from memory_mcp.services.search_index.files import IndexFile, IndexFiles
from memory_mcp.services.search_index.hybrid_search import HybridSearch
from memory_mcp.services.search_index.model import IndexHit, IndexQuery, IndexText
from memory_mcp.services.search_index.storage import texts
from memory_mcp.services.search_index.vector_search import QueryVector

REBUILDING = "Its index was damaged and is being rebuilt; try again in a moment."


class IndexRecreated(Unavailable):
    """The file was damaged, and an empty one has replaced it."""


class SearchIndex:
    """Every user's texts, each in a group. If a user's file is damaged, every method replaces it by an empty one and
    raises IndexRecreated."""

    def __init__(self, tenants: UserDatabases, embedders: Embedders) -> None:
        self._files = IndexFiles(tenants, embedders, texts.TABLES, texts.texts_to_embed)
        self.worker = self._files.worker
        self._recreating = threading.Lock()
        self._recreated: Counter[str] = Counter()

    def generation(self, user: str) -> int:
        """Changes when the user's file is recreated."""
        return self._recreated[user]

    def has_file(self, user: str) -> bool:
        return self._files.exists(user)

    def search(self, user: str, query: IndexQuery) -> list[IndexHit]:
        """The best matches first; without a text to look for, the newest."""
        if not query.text:
            return self._newest(user, query)
        with self._file(user) as file:
            return file.vectors.run_in_space(lambda: self._hits(file, query))

    def _hits(self, file: IndexFile, query: IndexQuery) -> list[IndexHit]:
        vector = self._query_vector(file, query.text)
        with file.db.read() as tx:
            first_queries = hybrid_search.first_queries(tx, self._files.tables, query.text)
            tx.prefetch(*first_queries, *file.vectors.first_queries(vector))
            allowed = texts.allowed(tx, query.group_prefix, query.tags, query.created)
            search = HybridSearch(
                *(self._files.tables, file.vectors, query.text, vector, allowed, query.limit, query.is_confined),
                is_partial=not query.is_confined,
            )
            candidates = search.candidates(tx)
            parts = {seq: candidates.parts(seq, ranking.DEFAULT_IMPORTANCE) for seq in candidates.seqs}
            scores = {seq: hybrid_search.score(one) for seq, one in parts.items()}
            best = sorted(scores, key=lambda seq: (-scores[seq], -seq))[: query.limit]
            rows = texts.by_seq(tx, best)
        return [
            IndexHit(
                ref=ref,
                label=label,
                snippet=hybrid_search.snippet(query.text, title, content, candidates.near.chunks.get(seq, 0)),
                score=scores[seq],
                cosine=parts[seq][0],
                lexical=parts[seq][1],
                facts=facts,
                closeness=candidates.near.closeness.get(seq),
            )
            for seq, (ref, label, title, content, facts) in zip(best, rows, strict=True)
        ]

    def _newest(self, user: str, query: IndexQuery) -> list[IndexHit]:
        with self._file(user) as file, file.db.read() as tx:
            rows = texts.by_seq(tx, texts.newest(tx, query.group_prefix, query.tags, query.created, query.limit))
        score = hybrid_search.score((None, None, ranking.DEFAULT_IMPORTANCE))
        return [
            IndexHit(ref, label, snippets.excerpt(content, ""), score, None, None, facts)
            for ref, label, _, content, facts in rows
        ]

    def _query_vector(self, file: IndexFile, text: str) -> QueryVector | None:
        """None: the search is by words alone."""
        queries = self._files.queries
        if queries.are_off:
            return None
        space = file.vectors.space(file.db)
        if space is not None:
            with suppress(Unavailable):
                return QueryVector.of(queries, space, text)
        return None

    # Texts

    def add(self, user: str, group: str, several: Sequence[IndexText], former_ids: Collection[str] = ()) -> None:
        """All or none, found by their words at once and by their meaning soon. Of a text whose id is there already,
        which another process may have added a moment ago, only the facts change. A text that equals one of
        `former_ids`, which are about to be deleted, takes its place and keeps its vectors."""
        with self._file(user) as file, file.db.write() as tx:
            texts.insert_all(tx, group, several, former_ids)
        self.worker.wake()

    def delete(self, user: str, ids: Sequence[str]) -> None:
        """Unknown ids are ignored."""
        with self._file(user) as file, file.db.write() as tx:
            texts.delete_all(tx, ids)

    def erase_deleted(self, user: str) -> None:
        """Rewrite the full-text index without the words of deleted texts, and empty the WAL, which has former versions.
        Takes longer the larger the index is."""
        with self._file(user) as file:
            with file.db.write() as tx:
                tx.texts(self._files.tables.words).optimize()
            file.db.erase_deleted()
            file.vectors.erase_deleted()

    def maintain(self) -> None:
        """Work that may wait: on the files of packed vectors."""
        self._files.maintain()

    def close(self) -> None:
        self._files.erase_deleted()

    def has_undated(self, user: str, group_prefix: str) -> bool:
        """Whether a text in these groups has no time."""
        with self._file(user) as file, file.db.read() as tx:
            return texts.has_undated(tx, group_prefix)

    def ids(self, user: str, group: str) -> dict[str, bool]:
        """The ids of a group's texts, and whether the facts of each are known."""
        with self._file(user) as file, file.db.read() as tx:
            return texts.ids_in(tx, group)

    # Groups

    def groups(self, user: str) -> set[str]:
        with self._file(user) as file, file.db.read() as tx:
            return texts.group_names(tx)

    def group_version(self, user: str, group: str) -> str | None:
        """The version of a group up to which it is indexed."""
        with self._file(user) as file, file.db.read() as tx:
            return texts.group_version(tx, group)

    def set_group_version(self, user: str, group: str, version: str | None) -> None:
        with self._file(user) as file, file.db.write() as tx:
            texts.set_group_version(tx, group, version)

    def delete_group(self, user: str, group: str) -> None:
        """With the texts that are still in it."""
        with self._file(user) as file, file.db.write() as tx:
            texts.delete_group(tx, group)

    # Files

    @contextmanager
    def _file(self, user: str) -> Iterator[IndexFile]:
        generation = self._recreated[user]
        try:
            yield self._files.of(user)
        except Unusable as exc:
            with self._recreating:
                if self._recreated[user] == generation:  # else another thread found the same and has recreated it
                    self._recreate(user)
            raise IndexRecreated(REBUILDING) from exc

    def _recreate(self, user: str) -> None:
        try:
            self._files.recreate(user)
        except OSError as exc:
            raise Unavailable("Its index cannot be written. Check that the data directory is yours.") from exc
        self._recreated[user] += 1
