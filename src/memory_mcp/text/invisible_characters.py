"""Characters that people do not see and models or terminals obey: controls, overrides of the direction of text, letters
of the invisible tag block. They are stored as they were given, and shown.

The joiners of emoji and of many scripts are left alone, and so are the marks of direction that right-to-left texts need
and the tags in a flag.
"""

import re

_FLAG = "\U0001f3f4[\U000e0020-\U000e007f]+"
_INVISIBLE = re.compile(
    f"{_FLAG}|([\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u00ad\u180e\u200b\u202a-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f])"
)


def show(text: str) -> str:
    """For people and models: each of them by its name, such as <U+202E>."""
    if text.isprintable():  # so it has none: much faster, and no other thread can run meanwhile
        return text
    return _INVISIBLE.sub(lambda found: f"<U+{ord(found[1]):04X}>" if found[1] else found[0], text)


def escape_in_json(text: str) -> str:
    """A JSON text whose strings have them as escapes, such as \\u202e: it is read by programs as the same value."""
    if text.isprintable():
        return text
    return _INVISIBLE.sub(lambda found: _escape(found[1]) if found[1] else found[0], text)


def _escape(character: str) -> str:
    units = character.encode("utf-16-be")
    return "".join(f"\\u{units[start : start + 2].hex()}" for start in range(0, len(units), 2))
