import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as Late
from typing import TypeVar

from memory_mcp.caller import Caller
from memory_mcp.embedding import Worker
from memory_mcp.errors import AppError, Invalid
from memory_mcp.families import within_budget
from memory_mcp.recall.model import Hit, Incomplete, Match, Question, Recalled
from memory_mcp.sessions import Session

log = logging.getLogger(__name__)

PATIENCE = 3.0  # seconds that each family has
AT_LEAST = 20  # matches asked of each family, however few are wanted in all
CLOSE = 0.4  # a cosine part from which on the meaning counts as a reason
RANK_SHARE = 0.1  # of a score: where its family ranks it. The rest is how well it matches

Find = Callable[[Caller, Session, Question, int], list[Match]]
Follow = Callable[[Caller], None]
T = TypeVar("T")


class Recall:
    """One search over all families a caller may read, each asked at the same time as the others."""

    def __init__(
        self, find: Mapping[str, Find], follow: Mapping[str, Follow], worker: Worker, patience: float = PATIENCE
    ) -> None:
        """`follow` brings what a family is searched by up to date, where that is not always so; `worker` makes the
        vectors it is searched by."""
        self.worker = worker
        self._find = find
        self._follow = follow
        self._patience = patience
        self._workers = ThreadPoolExecutor(16, thread_name_prefix="recall")

    def recall(self, caller: Caller, session: Session, question: Question) -> Recalled:
        """The best matches of all families. One that is slow or broken is named, and does not take the others down."""
        if not question.query:
            raise Invalid("Give words to look for.", field="query")
        families = self._asked(caller, question)
        until = time.monotonic() + self._patience
        incomplete: dict[str, str] = {}
        following = {
            family: self._workers.submit(self._follow[family], caller) for family in families & self._follow.keys()
        }
        for family, work in following.items():
            _wait(work, until, family, incomplete, "Its newest memories are still being indexed; ask again in a while.")
        limit = max(AT_LEAST, question.limit)
        asked = {
            family: self._workers.submit(self._find[family], caller, session, question, limit) for family in families
        }
        until = max(until, time.monotonic() + self._patience)
        found = {
            family: _wait(work, until, family, incomplete, "It took too long; ask it alone.")
            for family, work in asked.items()
        }
        hits = fused({family: matches for family, matches in found.items() if matches})[: question.limit]
        shown = within_budget(
            hits, lambda hit: 120 + sum(len(text.encode()) for text in (hit.ref, hit.title, hit.snippet))
        )
        return Recalled(
            hits=shown,
            searched=[family for family in self._find if found.get(family) is not None],
            incomplete=[Incomplete(family, error) for family, error in incomplete.items()],
            notice=None if len(shown) == len(hits) else f"{len(hits) - len(shown)} more hits: ask with a lower limit.",
        )

    def close(self) -> None:
        self._workers.shutdown(wait=False, cancel_futures=True)

    def _asked(self, caller: Caller, question: Question) -> set[str]:
        known = [family for family in self._find if family in caller.families]
        if unknown := [family for family in question.families if family not in known]:
            raise Invalid(f"{unknown[0]!r} cannot be searched. Use any of: {', '.join(known)}.", field="families")
        return set(question.families or known)


def fused(found: Mapping[str, list[Match]]) -> list[Hit]:
    """All matches in one order. Scores of families are made alike, and mostly comparable; a family's own order has a
    small say, so that the first of each comes before another's long tail."""
    hits = [
        Hit(
            family,
            match.ref,
            match.title,
            match.snippet,
            round((1 - RANK_SHARE) * match.score + RANK_SHARE / (rank + 1), 6),
            _why(match),
        )
        for family, matches in found.items()
        for rank, match in enumerate(matches)
    ]
    return sorted(hits, key=lambda hit: (-hit.score, hit.family, hit.ref))


def _wait(work: "Future[T]", until: float, family: str, incomplete: dict[str, str], late: str) -> "T | None":
    """What comes of it in time; None, and why, if nothing does."""
    try:
        return work.result(timeout=max(0.0, until - time.monotonic()))
    except Late:
        incomplete[family] = late
    except AppError as exc:
        incomplete[family] = exc.message
    except Exception:
        log.exception("Recall from %s failed", family)
        incomplete[family] = "The server failed here, and its log says why."
    return None


def _why(match: Match) -> str:
    by_words = bool(match.lexical)
    by_meaning = match.cosine is not None and match.cosine >= CLOSE
    if by_words and by_meaning:
        return "its words and its meaning"
    return "its words" if by_words else "its meaning"
