import marshal
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Literal
from urllib.parse import quote, unquote

from memory_mcp.clock import instant, short_stamp
from memory_mcp.engines.files.signature import UNSETTLED, Signature
from memory_mcp.families.family import Notice, OriginText

PathParts = tuple[str, ...]
"""A path inside a store, split at its slashes."""


Arrival = Literal["new", "same", "other"]
"""Whether the path of an imported file has nothing yet, the same memory, or another one."""


@dataclass(frozen=True)
class IncomingFile:
    """A file that comes from elsewhere."""

    path: str  # in the store, as the file is called there
    content: bytes
    changed_ns: int  # when it was last changed, in nanoseconds since 1970
    is_foreign: bool  # another program's, UTF-8: its name must work on every system, and its text states its age


PREFIX = "stores:"  # of references


def ref_of(store: str, path: str) -> str:
    """The reference of a memory."""
    return f"{PREFIX}{store}/{quote(path)}"


def split_ref(ref: str) -> tuple[str, str]:
    """The store and the path of a reference; the path is empty for a store."""
    store, _, path = ref.removeprefix(PREFIX).partition("/")
    return unquote(store), unquote(path)


@dataclass(frozen=True)
class Store:
    """A registered folder."""

    name: str
    path: str  # as stores.yaml has it
    folder: Path
    is_ours: bool  # whether it is in the data directory


@dataclass(frozen=True)
class Listing:
    """The entries of one folder of a store."""

    folder: PathParts
    files: dict[str, Signature]  # markdown files, by their names on disk
    folders: list[str]

    @cached_property
    def path(self) -> str:
        return "/".join(self.folder)

    @cached_property
    def fingerprint(self) -> str | None:
        """A value that changes when anything in the folder does. None if a change may not show."""
        if UNSETTLED in self.files.values():
            return None
        # Version 0 has no references, so equal values give the same bytes. It takes half the time of repr.
        return sha256(marshal.dumps((sorted(self.files.items()), self.folders), 0)).hexdigest()


@dataclass(frozen=True)
class FileChange:
    """The fields that an update changes. None leaves a field as it is."""

    content: str | None = None
    tags: list[str] | None = None
    expires_at: str | None = None
    clear_expiry: bool = False
    citations: list[str] | None = None


@dataclass(frozen=True)
class MemorySummary:
    """The fields of a memory that the index has."""

    path: str
    token_estimate: int
    summary: str
    created_at: str | None
    updated_at: str | None
    expires_at: str | None
    tags: list[str]


def is_over(expires_at: str | None, now: datetime) -> bool:
    return expires_at is not None and instant(expires_at) <= now


@dataclass(frozen=True)
class Content:
    """Identifies a file's content, to find out when it was changed."""

    digest: bytes
    stated_at: str | None  # updated_at of its front matter
    changed_ns: int | None = None  # the file's time when it was first seen with this content; None: it always had it

    @property
    def updated_at(self) -> str | None:
        """The later of the time in the front matter and the time when the content was changed."""
        if self.changed_ns is None:
            return self.stated_at
        changed_at = datetime.fromtimestamp(self.changed_ns / 1e9, UTC)
        is_stated_later = self.stated_at is not None and instant(self.stated_at) >= changed_at
        return self.stated_at if is_stated_later else short_stamp(changed_at)

    def dated(self, written_ns: int, before: "Content | None", former: "Content | None") -> "Content":
        """This content with the time it was changed. `before` is what the file held when it was last read.

        `former` is this very content, if this or another file of the store held it earlier: moving a file or going
        back to an old version is no change. Otherwise the file's time counts, unless the front matter states
        another time than before: its writer knows better, and a git checkout changes files' times.
        """
        if before is not None and before.digest == self.digest:
            return before
        if former is not None:
            return replace(self, changed_ns=former.changed_ns)
        is_stated = before is None or before.stated_at != self.stated_at
        return self if is_stated else replace(self, changed_ns=written_ns)


@dataclass(frozen=True)
class ReadFile:
    """The parsed contents of a file, and its signature at that time."""

    signature: Signature
    summary: MemorySummary
    content: Content


# Answers are sent as they are.


@dataclass(frozen=True)
class Metadata:
    created_at: str | None = None
    updated_at: str | None = None
    tags: list[str] = field(default_factory=list)
    source: str | None = None
    expires_at: str | None = None
    citations: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Added:
    store: str
    path: str
    created: bool


@dataclass(frozen=True)
class Updated:
    store: str
    path: str
    updated: bool


@dataclass(frozen=True)
class StoreMemory:
    store: str
    path: str
    content: str
    metadata: Metadata
    origin: OriginText = None


@dataclass(frozen=True)
class Removed:
    store: str
    path: str
    removed: bool


@dataclass(frozen=True)
class Moved:
    store: str
    from_path: str
    to_path: str
    moved: bool


@dataclass(frozen=True)
class ListedMemory:
    path: str
    token_estimate: int
    summary: str
    updated_at: str | None
    expired: bool
    origin: OriginText = None


@dataclass(frozen=True)
class Category:
    store: str
    category: str
    count: int
    memories: list[ListedMemory]
    subcategories: list[str]
    notice: Notice = None


@dataclass(frozen=True)
class PrunedStore:
    store: str
    pruned_count: int
    pruned: list[str]
    notice: Notice = None


@dataclass(frozen=True)
class ReindexedStore:
    store: str
    path: str
    memories: int
    categories: int


@dataclass(frozen=True)
class RecentMemory:
    path: str
    content: str
    updated_at: str | None
    token_estimate: int
    tags: list[str]
    origin: OriginText = None


@dataclass(frozen=True)
class RecentFiles:
    category: str
    count: int
    memories: list[RecentMemory]
    notice: Notice = None
