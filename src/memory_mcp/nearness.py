"""Names near a misspelled one, for errors that say what was probably meant."""

import difflib
from collections.abc import Iterable

MAX_NEAREST = 3
MIN_SIMILARITY = 0.6  # of difflib: 1 is the same
MAX_COMPARED = 5_000  # names; comparing one takes 10 µs


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """The few known names most like this one, the nearest first. Case, and marks between words, do not count."""
    wanted = _folded(name)
    by_form: dict[str, list[str]] = {}
    for one, _ in zip(known, range(MAX_COMPARED), strict=False):
        by_form.setdefault(_folded(one), []).append(one)
    similar = difflib.get_close_matches(wanted, by_form, MAX_NEAREST, MIN_SIMILARITY)
    holding = sorted((form for form in by_form if _is_part(wanted, form)), key=len)
    forms = dict.fromkeys([*similar, *holding])
    return [one for form in forms for one in by_form[form]][:MAX_NEAREST]


def did_you_mean(names: Iterable[str]) -> str:
    """A question with these names; empty without any."""
    listed = [repr(name) for name in names]
    if not listed:
        return ""
    return f"Did you mean {' or '.join([', '.join(listed[:-1]), listed[-1]] if listed[:-1] else listed)}?"


def _folded(name: str) -> str:
    return "".join(sign for sign in name.casefold() if sign.isalnum()) or name


def _is_part(one: str, other: str) -> bool:
    """Whether one name holds the other, as `work` and `work notes` do."""
    return min(len(one), len(other)) >= 3 and (one in other or other in one)
