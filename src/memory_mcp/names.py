"""Names that people read in lists: no character in them is invisible or changes how the text around it is shown."""

import re

LINE_CONTROLS = r"\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069"
"""For a set in a regular expression: control characters, line separators, and those that reorder a line."""
_UNPRINTABLE = re.compile(rf"[{LINE_CONTROLS}\u200e\u200f]")
# Unicode's control characters, line separators, bidirectional controls and all that is Default_Ignorable (UAX #44).
_HIDDEN = re.compile(
    rf"[{LINE_CONTROLS}"
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff]"
)
# Persian and Indic scripts and emoji need joiners between two of their characters, and emoji a variation selector.
_NEEDED = re.compile(
    '(?<=[^\x00-\x7f])[\u200c\u200d](?=[^\x00-\x7f])|(?<=[^\x00-"$-)+-/:-\x7f])[\ufe00-\ufe0f]'  # also 1, # and *
)


def hidden_character(name: str) -> str | None:
    """The first character that no new name may hold, as U+XXXX; None for a name that can be read."""
    found = _HIDDEN.search(_NEEDED.sub("", name)) if not name.isascii() else _HIDDEN.search(name)
    return f"U+{ord(found[0]):04X}" if found else None


def visible(text: str) -> str:
    """A text on one line: control characters, and those that change the direction of text, become escapes."""
    return _UNPRINTABLE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def check_readable(name: str) -> str:
    """The name itself. Raises ValueError for one with a hidden character: pydantic says which argument it is."""
    if found := hidden_character(name):
        raise ValueError(f"This name holds {found}, which cannot be seen or changes how a line is shown. Leave it out")
    return name
