"""The existing name that a caller most likely means."""

from collections.abc import Iterable
from difflib import get_close_matches

MAX_NAME_CHARS = 64  # longer ones are not compared: the time grows with the square of the length
MIN_SIMILARITY = 0.7


def nearest_name(name: str, known: Iterable[str]) -> str | None:
    """The known name nearest to this one, whatever the case of its letters; None if none is near."""
    if len(name) > MAX_NAME_CHARS:
        return None
    by_lower = {one.lower(): one for one in sorted(known, reverse=True) if len(one) <= MAX_NAME_CHARS}
    found = get_close_matches(name.lower(), by_lower, 1, MIN_SIMILARITY)
    return by_lower[found[0]] if found else None
