"""Speed as ratios within one run: absolute times are the machine's, ratios are ours."""

import sys
from types import TracebackType


def _show_error(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.stderr.write("\nInterrupted. Figures that were printed are complete; the same command starts again.\n")
    else:
        sys.__excepthook__(kind, error, traceback)


sys.excepthook = _show_error
