"""A caller's stores: their registry, their folders, and the cache of their files."""

import hashlib
import logging
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TypeVar

from memory_mcp.caller import Caller
from memory_mcp.engines.files import data_directory
from memory_mcp.engines.sqlite import Database
from memory_mcp.errors import Unavailable, Unusable
from memory_mcp.families.stores.catalogue import Catalogue
from memory_mcp.families.stores.folders import StoreFolder
from memory_mcp.families.stores.model import (
    Store,
)
from memory_mcp.families.stores.registry import Registry
from memory_mcp.families.stores.schema import STORES_CACHE
from memory_mcp.services.access import Tenants

log = logging.getLogger(__name__)

T = TypeVar("T")


class StoreAccess:
    def __init__(
        self, caches: Tenants, folder_of: Callable[[str], Path], *, durable: bool, locks: Path | None = None
    ) -> None:
        """`folder_of` gives the folder with a user's registry. `locks` is a folder for the locks of stores, where
        folders themselves cannot be locked."""
        self._caches = caches
        self._folder_of = folder_of
        self._durable = durable
        self._locks = locks

    def registry(self, caller: Caller) -> Registry:
        return Registry(self._folder_of(caller.user))

    def open(self, caller: Caller, store: str) -> StoreFolder:
        return self.folder(self.registry(caller).get(store, caller))

    def folder(self, store: Store) -> StoreFolder:
        return StoreFolder(store, durable=self._durable, lock=self._lock_of(store))

    def _lock_of(self, store: Store) -> Path | None:
        if self._locks is None:
            return None
        data_directory.make_private_folder(self._locks)
        name = hashlib.sha256(os.path.realpath(store.folder).encode()).hexdigest()[:32]
        return self._locks / f"{name}.lock"

    def existing(self, caller: Caller) -> Iterator[StoreFolder]:
        """The folders of all stores that have one."""
        folders = (self.folder(store) for store in self.registry(caller).all())
        return (folder for folder in folders if not folder.is_missing())

    def query(self, caller: Caller, folder: StoreFolder, read: Callable[[Catalogue], T]) -> T:
        """The result of `read` on the catalogue. Its file is a cache: if it cannot be read, it is created again. If it
        cannot be written, because the disk is full or read-only, a temporary one takes its place."""
        try:
            return self._query_cache(caller, folder, read)
        except (Unavailable, OSError) as exc:
            log.warning("The cache of stores cannot be used, so every file is read: %s", exc)
        with tempfile.TemporaryDirectory(prefix="memory-mcp-", ignore_cleanup_errors=True) as temporary:
            path = Path(temporary) / STORES_CACHE.file
            with closing(Database(path, STORES_CACHE.schema, backups=path.parent, durability="normal")) as cache:
                return read(Catalogue(cache, folder))

    def _query_cache(self, caller: Caller, folder: StoreFolder, read: Callable[[Catalogue], T]) -> T:
        try:
            return read(Catalogue(self._caches.database(caller.user), folder))
        except Unusable:
            self._caches.recreate(caller.user)
            return read(Catalogue(self._caches.database(caller.user), folder))
