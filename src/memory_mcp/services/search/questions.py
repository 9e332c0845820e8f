"""Which texts are questions: a question is no answer to another one, and the text after it is."""

QUESTION_MARKS = ("?", "\uff1f", "\u061f")  # also of Chinese and Japanese, and of Arabic
MAX_QUESTION_BYTES = 800  # a longer text says more than it asks
BLANKS = " \t\r\n"


def is_question(text: str) -> bool:
    return len(text.encode()) <= MAX_QUESTION_BYTES and text.rstrip(BLANKS).endswith(QUESTION_MARKS)
