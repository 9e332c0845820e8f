"""The index.yaml of each category: written from the files, repaired where it is wrong."""

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TypeGuard

from memory_mcp.caller import Caller, Scope
from memory_mcp.errors import AppError, NotFound, Unavailable
from memory_mcp.families.stores import index_files, paths
from memory_mcp.families.stores.folders import StoreFolder
from memory_mcp.families.stores.model import (
    Listing,
    MemorySummary,
    PathParts,
    ReindexedStore,
)
from memory_mcp.families.stores.store_access import StoreAccess
from memory_mcp.progress import ReportProgress

REPAIR_LOCK_TIMEOUT_S = 1.0  # for a reader that repairs an index
YIELD_S = 0.001  # between two locks: a process that waits for one tries twice in that time
MAX_CATEGORIES_NAMED = 5  # in a message
DEPENDENCIES = frozenset({"node_modules"})  # folders of other people's files, which get no index.yaml


class CategoryIndexes:
    """An index is a cache: if it cannot be written, the change of the memory stays."""

    def __init__(self, access: StoreAccess) -> None:
        self._access = access

    def rebuild(self, caller: Caller, store: str, report_progress: ReportProgress) -> ReindexedStore:
        """Write the index.yaml of every category with a memory in it or below it, from the files. Raises Unavailable,
        after all others are written, if some cannot be."""
        folder = self._access.open(caller, store)
        if folder.is_missing():
            return ReindexedStore(store, folder.store.path, 0, 0)
        listings, memories = self._access.query(caller, folder, lambda catalogue: catalogue.refresh(report_progress))
        folders = _indexed_categories(listings)
        failed = []
        for parts in sorted(folders):
            with lock_briefly(folder):
                if not self._try_write(caller, folder, parts):
                    failed.append(parts)
        if failed:
            names = ", ".join("/".join(parts) or "the top" for parts in failed[:MAX_CATEGORIES_NAMED])
            raise Unavailable(
                f"{len(failed)} of {len(folders)} indexes could not be written: {names}. Let this server write there.",
                hint="Then call reindex_store again.",
            )
        self._correct_empty(caller, folder, [one.folder for one in listings if one.folder not in folders])
        return ReindexedStore(store, folder.store.path, memories, len(folders - {()}))

    def _correct_empty(self, caller: Caller, folder: StoreFolder, empty: Iterable[PathParts]) -> None:
        """Correct the indexes of ours that are left in categories without memories. No new ones are made there."""
        for parts in empty:
            with suppress(AppError):
                if index_files.is_ours(folder.index(parts) or ""):
                    with lock_briefly(folder):
                        self._write(caller, folder, parts)

    def _try_write(self, caller: Caller, folder: StoreFolder, parts: PathParts) -> bool:
        try:
            self._write(caller, folder, parts)
        except NotFound:  # the category is deleted by now
            return True
        except AppError:
            return False
        return True

    def update(self, caller: Caller, folder: StoreFolder, parts: PathParts, *, is_new: bool = False) -> None:
        """Update the index of a category, and those above it if the category may be new."""
        for depth in range(len(parts), -1 if is_new else len(parts) - 1, -1):
            with suppress(AppError):
                self._write(caller, folder, parts[:depth])

    def _write(self, caller: Caller, folder: StoreFolder, parts: PathParts) -> None:
        listing, memories = self._access.query(caller, folder, lambda catalogue: catalogue.category(parts))
        text, there = _index_text(listing, memories), folder.index(parts)
        if _is_wrong(there, text):
            folder.write_index(parts, text, keep_old=index_files.author(there) == "unknown")

    def repair(self, caller: Caller, folder: StoreFolder, listing: Listing, memories: list[MemorySummary]) -> None:
        """Correct an index.yaml that is wrong. Reading creates none in a registered folder, and a caller who may only
        read corrects nothing."""
        if Scope.WRITE not in caller.scopes:
            return
        with suppress(AppError):
            there = folder.index(listing.folder)
            if _is_wrong(there, _index_text(listing, memories)) and (
                folder.store.is_ours or index_files.is_ours(there)
            ):
                with folder.lock(REPAIR_LOCK_TIMEOUT_S):
                    self._write(caller, folder, listing.folder)


@contextmanager
def lock_briefly(folder: StoreFolder) -> Iterator[None]:
    """Hold a store's lock for one of many short steps. Other processes can acquire it after each."""
    with folder.lock():
        yield
    time.sleep(YIELD_S)


def _is_wrong(there: str | None, text: str) -> TypeGuard[str]:
    """Whether an index.yaml is ours and has another text than this."""
    return there is not None and there != text and index_files.author(there) != "other"


def _index_text(listing: Listing, memories: Sequence[MemorySummary]) -> str:
    return index_files.render(memories, subcategory_names(listing))


def _indexed_categories(listings: Iterable[Listing]) -> set[PathParts]:
    """The categories that get an index.yaml: those with a memory in or below them, except below DEPENDENCIES."""
    own = [one.folder for one in listings if one.files and not DEPENDENCIES.intersection(one.folder)]
    return {folder[:depth] for folder in own for depth in range(len(folder) + 1)}


def subcategory_names(listing: Listing) -> list[str]:
    return ["/".join((*listing.folder, paths.nfc(name))) for name in listing.folders]
