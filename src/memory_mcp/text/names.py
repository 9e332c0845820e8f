"""Names that people read in lists: no character in them is invisible or changes how the text around it is shown."""

import re
import unicodedata

from memory_mcp.errors import Invalid

MAX_NAMESPACE_CHARS = 128
_LINE_CONTROLS = r"\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069"  # control characters, and those that reorder a line
READABLE_PATTERN = rf"^[^{_LINE_CONTROLS}]+$"
"""Names in lists: no control characters, and none that reorder the line."""
NAMESPACE_PATTERN = rf"^[^,{_LINE_CONTROLS}]*[^\s,{_LINE_CONTROLS}][^,{_LINE_CONTROLS}]*$"
"""Readable, with something in it but spaces, and no comma: it becomes part of a tag."""

_UNPRINTABLE = re.compile(rf"[{_LINE_CONTROLS}\u200e\u200f]")
# Unicode's control characters, line separators, bidirectional controls and all that is Default_Ignorable (UAX #44).
_HIDDEN = re.compile(
    rf"[{_LINE_CONTROLS}"
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


def new_namespace(name: str) -> str:
    """The one rule for namespaces that notes are written to: in NFC, without spaces at the ends. Raises Invalid.

    What only finds notes takes every name, so that a namespace from before this rule can still be read.
    """
    name = unicodedata.normalize("NFC", name).strip()
    if len(name) > MAX_NAMESPACE_CHARS or not re.fullmatch(NAMESPACE_PATTERN, name) or hidden_character(name):
        raise Invalid(
            f"A namespace has 1 to {MAX_NAMESPACE_CHARS} characters that can be read, and no comma or line break.",
            field="namespace",
        )
    return name
