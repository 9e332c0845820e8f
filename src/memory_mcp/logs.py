"""Logs: one JSON object per line on stderr, and never a key."""

import json
import logging
import re
import sys
import time
from collections.abc import Callable
from contextvars import ContextVar
from datetime import UTC, datetime
from io import TextIOWrapper
from pathlib import Path

MAX_FILE_BYTES = 5_000_000
MAX_FORMER_FILES = 2  # beside the one that is written
MAX_REPEATS = 20  # of one line, in each window
REPEAT_WINDOW_S = 60.0
MAX_REMEMBERED = 1000  # lines
MAX_COMPARED_CHARS = 200
request_id: ContextVar[str] = ContextVar("request_id", default="")  # of the HTTP request that the code runs for
_KEY = re.compile(r"mmcp_[A-Za-z0-9]+_[A-Za-z0-9_-]+")
_STANDARD = frozenset(vars(logging.LogRecord("", 0, "", 0, "", (), None))) | {
    "message",
    "asctime",
    "color_message",
}


class JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {name: value for name, value in vars(record).items() if name not in _STANDARD}
        if of_request := request_id.get():
            line["request_id"] = of_request
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return _KEY.sub("mmcp_***", json.dumps(line, ensure_ascii=False, default=str))


def _is_worth_a_line(record: logging.LogRecord) -> bool:
    """Drops errors that only say that a client disconnected during a request, or that the server stopped."""
    return not (record.exc_info and type(record.exc_info[1]).__name__ in ("ClientDisconnect", "CancelledError"))


class RepeatFilter(logging.Filter):
    """Limits how often one line is logged in a minute, and then logs how often it was left out. Otherwise a client that
    causes an error again and again could fill the disk."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._now = now
        self._seen: dict[tuple[str, int, str], tuple[float, int]] = {}  # since when, how often

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.WARNING:
            return True
        line = (record.name, record.levelno, str(record.msg)[:MAX_COMPARED_CHARS])
        since, count = self._seen.get(line, (self._now(), 0))
        if self._now() - since >= REPEAT_WINDOW_S:
            if count > MAX_REPEATS:
                record.left_out = count - MAX_REPEATS
            since, count = self._now(), 0
        if len(self._seen) >= MAX_REMEMBERED:
            self._seen.clear()
        self._seen[line] = (since, count + 1)
        return count < MAX_REPEATS


def _rotated(file: Path) -> logging.Handler:
    from logging.handlers import RotatingFileHandler  # only a server in the background needs it

    return RotatingFileHandler(
        file, maxBytes=MAX_FILE_BYTES, backupCount=MAX_FORMER_FILES, encoding="utf-8", errors="backslashreplace"
    )


def configure(level: str, file: Path | None = None) -> None:
    """Send every logger's lines to stderr, or to a file that is rotated, in UTF-8 whatever the locale says."""
    if isinstance(sys.stderr, TextIOWrapper):
        sys.stderr.reconfigure(encoding="utf-8", errors="backslashreplace")
    handler = logging.StreamHandler(sys.stderr) if file is None else _rotated(file)
    handler.setFormatter(JsonLines())
    handler.addFilter(_is_worth_a_line)
    handler.addFilter(RepeatFilter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for chatty in ("mcp", "uvicorn", "sse_starlette", "httpx2"):  # the libraries report every request at info
        logging.getLogger(chatty).setLevel("DEBUG" if level == "debug" else "WARNING")
    logging.getLogger("mcp.server.sse").setLevel("WARNING")  # at debug it logs message bodies
