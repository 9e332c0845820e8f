"""Names near a misspelled one, for errors that say what was probably meant."""

from collections.abc import Callable, Iterable
from difflib import SequenceMatcher
from itertools import islice
from typing import Any

from memory_mcp.caller import Caller, Scope
from memory_mcp.errors import NotFound

MAX_NEAREST = 3
MIN_SIMILARITY = 0.6  # of difflib: 1 is the same
MAX_DISTANCE = 0.1  # to the similarity of the nearest
MAX_NAME_CHARS = 128
MAX_COMPARED = 5_000  # names


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """The few known names most like this one, the nearest first. Case, and marks between words, do not count."""
    wanted = _folded(name)
    matcher = SequenceMatcher(b=wanted, autojunk=False)  # which prepares this name once for all comparisons
    scores = {one: _similarity(matcher, wanted, _folded(one)) for one in islice(known, MAX_COMPARED)}
    best = max(scores.values(), default=0.0)
    enough = max(MIN_SIMILARITY, best - MAX_DISTANCE)
    ranked = sorted(scores, key=lambda one: -scores[one])
    return [one for one in ranked if scores[one] >= enough][:MAX_NEAREST]


def nearest_one(name: str, known: Iterable[str]) -> str | None:
    """The known name most like this one; None if none is, or if it is too long for a name."""
    return next(iter(nearest(name, sorted(known))), None) if len(name) <= MAX_NAME_CHARS else None


def not_found(message: str, name: str, known: Iterable[str], **more: Any) -> NotFound:
    """The error for a name that nothing has, with the nearest of those that the caller may see: `known` must hold no
    others. `more` is as for NotFound."""
    near = nearest(name, known)
    return NotFound(" ".join(filter(None, [message, did_you_mean(near)])), **more, **error_data(near))


def seen_by(caller: Caller | None, names: Callable[[], Iterable[str]]) -> Iterable[str]:
    """The names for a caller who may read; none for others, and without a caller."""
    return names() if caller and Scope.READ in caller.scopes else ()


def error_data(near: list[str]) -> dict[str, Any]:
    """The data of an error, for programs."""
    return {"nearest": near} if near else {}


def did_you_mean(names: Iterable[str]) -> str:
    """A question with these names; empty without any."""
    listed = [repr(name) for name in names]
    if not listed:
        return ""
    return f"Did you mean {' or '.join([', '.join(listed[:-1]), listed[-1]] if listed[:-1] else listed)}?"


def _folded(name: str) -> str:
    bare = name.partition("://")[2] or name  # the scheme of an address says nothing
    return "".join(sign for sign in bare.casefold() if sign.isalnum()) or bare


def _similarity(matcher: SequenceMatcher[str], name: str, other: str) -> float:
    """Of the matcher's name and another. One that holds the other, as `work` and `work notes`, is similar enough."""
    least = MIN_SIMILARITY if min(len(name), len(other)) >= 3 and (name in other or other in name) else 0.0
    matcher.set_seq1(other)
    return max(least, matcher.ratio() if matcher.quick_ratio() >= MIN_SIMILARITY else 0.0)
