import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from memory_mcp.caller import Caller
from memory_mcp.clock import instant, precise_stamp, stamp
from memory_mcp.errors import AppError, Invalid, NotFound, Unavailable
from memory_mcp.families.family import OpenFamily, within_budget
from memory_mcp.families.recall import overview, pages
from memory_mcp.families.recall.background import BackgroundIndexer, UpdateIndex, run_in_thread
from memory_mcp.families.recall.fusion import fused
from memory_mcp.families.recall.model import Incomplete, OpenedPage, Overview, Recalled, RecallHit, RecallQuery
from memory_mcp.families.recall.origins import origins_of
from memory_mcp.families.recall.references import open_reference
from memory_mcp.families.texts import Match, TextQuery, searched
from memory_mcp.services.embedding import EmbeddingWorker
from memory_mcp.services.search import fts_query
from memory_mcp.services.sessions import Session
from memory_mcp.text.time_spans import TimeReader

log = logging.getLogger(__name__)

SEARCH_TIMEOUT_S = 3.0  # of each family
INDEX_TIMEOUT_S = 2.0  # of those, until a family is searched although its newest texts are not indexed yet
STOP_TIMEOUT_S = 2.0  # for indexing to stop, at the end of a server
MIN_MATCHES = 40  # of each family, even if fewer are wanted in total: a match may be lifted by another one
MAX_RUNNING_SEARCHES = 32  # of one family; reached only if it hangs
MAX_TITLE_CHARS = 80  # a title may be the whole first line, which the snippet has
MIN_CLOSE_COSINE = 0.4  # from which on the meaning counts as a reason

STILL_INDEXING = "Its newest memories are still being indexed; ask again in a while."
TOO_SLOW = "It took too long; ask it alone."
NOTHING_FITS = "Nothing fits this query. Try other words or fewer filters; recall_overview shows what there is."
NOTHING_IN_SPAN = "Nothing was created in this span. Widen it, or leave families and tags out."
FAILED = "Internal error; see the server's log."

Find = Callable[[Caller, Session, TextQuery], list[Match]]
HasUndated = Callable[[Caller, str], bool]
"""Whether a family's index has texts without a time that the caller may see."""


@dataclass(frozen=True)
class _FamilyResult:
    """The result of one family."""

    matches: list[Match] | None  # None: it could not be searched
    missing: str | None = None  # why the result may be incomplete
    has_undated: bool = False  # texts without a time were left out


class Recall:
    """One search over all families that a caller may read, in parallel."""

    def __init__(
        self,
        find: Mapping[str, Find],
        update_index: Mapping[str, UpdateIndex],
        has_undated: HasUndated,
        worker: EmbeddingWorker,
        times: TimeReader,
        stop: Callable[[], None],
        maintain: Callable[[], None],
        families: Mapping[str, OpenFamily[Any]],
    ) -> None:
        """`families` are those that are searched. `update_index` does so for a family's texts, if these are
        indexed, until `stop`; `worker` embeds them. `maintain` is work on the index that may wait."""
        self.worker = worker
        self.times = times
        self._has_undated = has_undated
        self._find = find
        self._indexers = {family: BackgroundIndexer(own) for family, own in update_index.items()}
        self._slots = {family: threading.Semaphore(MAX_RUNNING_SEARCHES) for family in find}
        self._stop = stop
        self.maintain = maintain
        self._families = families

    def open(self, caller: Caller, session: Session, ref: str, offset: int) -> OpenedPage:
        """A page of the memory that a reference names. Raises NotFound."""
        ref = ref.strip()
        try:
            family, opened = open_reference(self._families, caller, session, ref)
        except NotFound as exc:
            exc.code = NotFound.code  # also for a store that is not registered
            exc.data = {"ref": ref} | {name: value for name, value in exc.data.items() if name == "nearest"}
            raise
        content, following = pages.page(opened.content, offset)
        origin = origins_of(self._families, caller, {family: [opened.ref]}).get((family, opened.ref))
        times = opened.created_at, opened.updated_at
        return OpenedPage(family, opened.ref, opened.title, content, *times, origin, following)

    def overview(self, caller: Caller) -> Overview:
        return overview.describe(self._families, caller)

    def recall(self, caller: Caller, session: Session, query: RecallQuery) -> Recalled:
        """The best matches of all families; without a query, the newest of a span. A slow or broken family is named,
        and does not affect the others."""
        query = replace(query, query=query.query.strip())
        if not query.query and query.created.is_whole:
            raise Invalid(
                "Give words to look for.",
                hint="With after or before, an empty query lists what was created in a span; "
                "recall_overview shows what there is.",
                people_hint="`memory-mcp list` lists the latest memories.",
                field="query",
            )
        wanted = max(MIN_MATCHES, query.limit)
        parts = self._parts(caller, session, query, wanted)
        plain = None if _has_words(parts) else fts_query.without_syntax(query.query, ("nothing",))
        by_plain_words = self._parts(caller, session, replace(query, query=plain), wanted) if plain else {}
        if _has_words(by_plain_words):
            parts = by_plain_words
        found = {family: part.matches for family, part in parts.items() if part.matches}
        hits = best(found, query.limit) if query.query else newest(found, query.limit)
        shown = within_budget(
            hits, lambda hit: 120 + sum(len(text.encode()) for text in (hit.ref, hit.title, hit.snippet))
        )
        shown = _with_origins(self._families, caller, shown)
        undated = [family for family, part in parts.items() if part.has_undated]
        notices = [
            fts_query.PLAIN_WORDS if parts is by_plain_words else None,
            None if hits else NOTHING_FITS if query.query else NOTHING_IN_SPAN,
            left_out(hits, shown),
            left_older(found, query),
            left_undated(undated),
        ]
        return Recalled(
            hits=shown,
            searched=[family for family, part in parts.items() if part.matches is not None],
            incomplete=[Incomplete(family, part.missing) for family, part in parts.items() if part.missing],
            searched_span=searched(query.created),
            notice=" ".join(filter(None, notices)) or None,
        )

    def embed_waiting(self, caller: Caller, timeout_s: float) -> None:
        """Index the newest texts and embed them, each for a limited time. For a command: it does nothing in the
        background."""
        until = time.monotonic() + timeout_s
        for indexer in self._indexers.values():
            with suppress(FutureTimeout, AppError):  # the search reports it
                indexer.request(caller).result(timeout=max(0.0, until - time.monotonic()))
        with suppress(Unavailable):  # texts that have no vector yet are found by their words
            self.worker.embed_waiting(timeout_s)

    def matches(self, caller: Caller, session: Session, query: RecallQuery) -> dict[str, list[Match]]:
        """The matches of each family that can be searched in time, in its own order."""
        return {family: part.matches or [] for family, part in self._parts(caller, session, query, query.limit).items()}

    def _parts(self, caller: Caller, session: Session, query: RecallQuery, limit: int) -> dict[str, _FamilyResult]:
        """The result of each family, at most `limit` matches of each, in parallel."""
        began = time.monotonic()
        wanted = TextQuery(query.query, query.tags, limit, query.created)
        running = {
            family: run_in_thread(partial(self._part, family, caller, session, wanted, began), "recall")
            for family in self._chosen_families(caller, query)
        }
        parts: dict[str, _FamilyResult] = {}
        for family, work in running.items():
            try:
                parts[family] = work.result(timeout=max(0.0, began + SEARCH_TIMEOUT_S - time.monotonic()))
            except FutureTimeout:
                parts[family] = _FamilyResult(None, TOO_SLOW)
        return parts

    def stop(self) -> None:
        """Stop indexing; the next search continues it."""
        self.worker.stop()
        self._stop()
        for indexer in self._indexers.values():
            indexer.join(STOP_TIMEOUT_S)

    def _part(self, family: str, caller: Caller, session: Session, wanted: TextQuery, began: float) -> _FamilyResult:
        if not self._slots[family].acquire(timeout=SEARCH_TIMEOUT_S):
            return _FamilyResult(None, TOO_SLOW)
        try:
            behind = self._update_index(family, caller, began + INDEX_TIMEOUT_S)
            found = self._find[family](caller, session, wanted)
            is_dated = wanted.created.is_whole or family not in self._indexers
            return _FamilyResult(found, behind, not is_dated and self._has_undated(caller, family))
        except Exception as exc:  # noqa: BLE001  # a broken family must not affect the others
            return _FamilyResult(None, _public_reason(family, exc))
        finally:
            self._slots[family].release()

    def _update_index(self, family: str, caller: Caller, until: float) -> str | None:
        """None if the index of the family's texts is up to date in time; else the reason."""
        if family not in self._indexers:
            return None
        try:
            self._indexers[family].request(caller.unconfined()).result(timeout=max(0.0, until - time.monotonic()))
        except FutureTimeout:
            return STILL_INDEXING
        except Exception as exc:  # noqa: BLE001  # the index so far can be searched
            # The problem may be outside of the namespace that the caller is confined to.
            return STILL_INDEXING if caller.is_confined else _public_reason(family, exc)
        return None

    def _chosen_families(self, caller: Caller, query: RecallQuery) -> list[str]:
        known = [family for family in self._find if family in caller.families]
        if unknown := [family for family in query.families if family not in known]:
            raise Invalid(f"{unknown[0]!r} cannot be searched. Use any of: {', '.join(known)}.", field="families")
        return [family for family in known if family in (query.families or known)]


def _with_origins(
    families: Mapping[str, OpenFamily[Any]], caller: Caller, hits: Sequence[RecallHit]
) -> list[RecallHit]:
    refs: dict[str, list[str]] = {}
    for hit in hits:
        refs.setdefault(hit.family, []).append(hit.ref)
    known = origins_of(families, caller, refs)
    return [replace(hit, origin=known.get((hit.family, hit.ref))) for hit in hits]


def _has_words(parts: Mapping[str, _FamilyResult]) -> bool:
    """Whether a match shares words with the query."""
    return any(match.lexical for part in parts.values() for match in part.matches or ())


def best(found: Mapping[str, list[Match]], limit: int) -> list[RecallHit]:
    return [_hit(one.family, one.match, one.score, _why(one.match)) for one in fused(found)[:limit]]


def newest(found: Mapping[str, list[Match]], limit: int) -> list[RecallHit]:
    """The matches of a search without a query, those created last first: all fit equally well."""
    matches = [(_written(match), family, match) for family, own in found.items() for match in own]
    matches.sort(key=lambda one: (one[0], one[2].ref), reverse=True)
    return [_hit(family, match, 1.0, "its time") for _, family, match in matches[:limit]]


def _written(match: Match) -> str:
    """When it was created, or else changed, in a form that can be compared."""
    time = match.facts.created_at or match.facts.updated_at
    return precise_stamp(instant(time)) if time else ""


def _hit(family: str, match: Match, score: float, why: str) -> RecallHit:
    return RecallHit(
        *(family, match.ref, _shortened(match.title), match.snippet, score, why),
        *(_shown_time(match.facts.created_at), _shown_time(match.facts.updated_at)),
        *(match.facts.namespace, match.facts.source),
    )


def left_out(hits: Sequence[RecallHit], shown: Sequence[RecallHit]) -> str | None:
    count = len(hits) - len(shown)
    return f"{count} more hits are too long to show at once. Narrow it by `families` or `tags`." if count else None


def left_older(found: Mapping[str, list[Match]], query: RecallQuery) -> str | None:
    """For a list of the newest that is not the whole span."""
    if query.query or sum(map(len, found.values())) <= query.limit:
        return None
    return "There are older ones: raise the limit, or give a time from this list as before."


def left_undated(families: Sequence[str]) -> str | None:
    where = " and ".join(families)
    return f"Memories without a time, which {where} have, are not found with a span." if families else None


def _shortened(title: str) -> str:
    return title if len(title) <= MAX_TITLE_CHARS else title[: MAX_TITLE_CHARS - 1].rstrip() + "…"


def _shown_time(text: str | None) -> str | None:
    return stamp(instant(text)) if text else None


def _public_reason(family: str, exc: Exception) -> str:
    """The part of an error that a caller may see."""
    if isinstance(exc, AppError):
        return exc.public_message
    log.error("Recall from %s failed", family, exc_info=exc)
    return FAILED


def _why(match: Match) -> str:
    by_words = bool(match.lexical)
    by_meaning = match.cosine is not None and match.cosine >= MIN_CLOSE_COSINE
    if by_words and by_meaning:
        return "its words and its meaning"
    return "its words" if by_words else "its meaning"
