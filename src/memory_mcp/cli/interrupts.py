"""Ctrl-C and SIGTERM: a verb ends with a sentence, and leaves nothing half-written."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

EXIT_CODE = 130  # what shells expect after Ctrl-C
SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupted(BaseException):
    """The user or the system ends the verb.

    No Exception, as no code may handle it as an error; no KeyboardInterrupt, for which Typer has its own message."""

    code = "interrupted"

    def __init__(self, message: str = "Interrupted.") -> None:
        super().__init__(message)
        self.message = message


@contextmanager
def raise_on_signals() -> Iterator[None]:
    """Raise Interrupted at the first signal. The second one ends the process at once: all files survive that."""
    if threading.current_thread() is not threading.main_thread():  # Python has signals in the main thread only
        yield
        return
    former = {number: signal.getsignal(number) for number in SIGNALS}
    for number, handler in former.items():
        if handler is not signal.SIG_IGN:  # as nohup wants it
            signal.signal(number, _interrupt)
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


def _interrupt(number: int, frame: FrameType | None) -> None:
    for one in SIGNALS:
        signal.signal(one, signal.SIG_DFL)
    raise Interrupted
