"""Characters that people do not see and models or terminals obey: controls, overrides of the direction of text, letters
of the invisible tag block, variation selectors and fillers that carry bytes. They are stored as they were given, and
shown.

The joiners of emoji and of many scripts are left alone, and so are the marks of direction that right-to-left texts
need, the tags in a flag, and a single variation selector behind a character that may have one.
"""

import re

_FLAG = "\U0001f3f4[\U000e0030-\U000e0039\U000e0061-\U000e007a]{3,7}\U000e007f"
_UNPRINTABLE = (
    "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u00ad\u180e\u200b\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e00ff\U000e01f0-\U000e0fff"
)
_SELECTORS = "\ufe00-\ufe0f\U000e0100-\U000e01ef"
_BLANK = f"\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0{_SELECTORS}"  # printable, as Python says
_INVISIBLE = re.compile(
    f"{_FLAG}|([{_UNPRINTABLE}\u3164\uffa0]|(?<=[{_BLANK}])[{_BLANK}]"
    f'|(?<![^\x00-"$-)+-/:-\x7f])[{_SELECTORS}])'  # not behind an ASCII character but 0-9, # and *, as in keycaps
)
_ASCII = bytes(range(128))
_CONTROLS = bytes(number for number in _ASCII if re.match(f"[{_UNPRINTABLE}]", chr(number)))
# In UTF-8: how the printable ones that are shown begin. Looking for bytes is faster than looking for characters.
_BEGINNINGS = (b"\xf3\xa0", b"\xef\xb8", b"\xe3\x85\xa4", b"\xef\xbe\xa0", b"\xcd\x8f", b"\xe1\x85", b"\xe1\x9e")


def show(text: str) -> str:
    """For people and models: each of them by its name, such as <U+202E>."""
    if not _may_hide(text):
        return text
    return _INVISIBLE.sub(lambda found: f"<U+{ord(found[1]):04X}>" if found[1] else found[0], text)


def escape_in_json(text: str) -> str:
    """A JSON text whose strings have them as escapes, such as \\u202e: it is read by programs as the same value."""
    if not _may_hide(text):
        return text
    return _INVISIBLE.sub(lambda found: _escape(found[1]) if found[1] else found[0], text)


def _may_hide(text: str) -> bool:
    """Much faster than the expression, and no other thread can run meanwhile."""
    encoded = text.encode("utf-8", "surrogatepass")
    if len(encoded.translate(None, _CONTROLS)) < len(encoded):
        return True
    rest = b"" if len(encoded) == len(text) else encoded.translate(None, _ASCII)
    return any(one in rest for one in _BEGINNINGS) or not rest.decode("utf-8", "surrogatepass").isprintable()


def _escape(character: str) -> str:
    units = character.encode("utf-16-be")
    return "".join(f"\\u{units[start : start + 2].hex()}" for start in range(0, len(units), 2))
