"""Which texts are questions: a question is no answer to another one, and the text after it is."""

QUESTION_MARKS = ("?", "\uff1f", "\u061f")  # also of Chinese and Japanese, and of Arabic
MAX_QUESTION_BYTES = 800  # a longer text says more than it asks
ENDING_BYTES = 40  # that show whether a text is a question; one with more blanks behind its mark is none
_BLANKS = b" \t\r\n"
_ENCODED_MARKS = tuple(mark.encode() for mark in QUESTION_MARKS)


def is_question(text: str) -> bool:
    encoded = text.encode()
    return len(encoded) <= MAX_QUESTION_BYTES and has_question_mark(encoded[-ENDING_BYTES:])


def has_question_mark(ending: bytes) -> bool:
    """Whether a text with these last bytes ends in a question mark."""
    return ending.rstrip(_BLANKS).endswith(_ENCODED_MARKS)
