"""A caller's stores: their registry, their folders, and the cache of their files."""

from collections.abc import Callable, Iterator
from typing import TypeVar

from memory_mcp.access import Tenants
from memory_mcp.caller import Caller
from memory_mcp.errors import Unusable
from memory_mcp.families.stores.catalogue import Catalogue
from memory_mcp.families.stores.folders import StoreFolder
from memory_mcp.families.stores.model import (
    Store,
)
from memory_mcp.families.stores.registry import Registry

T = TypeVar("T")


class StoreAccess:
    def __init__(self, caches: Tenants, *, durable: bool) -> None:
        self._caches = caches
        self._durable = durable

    def registry(self, caller: Caller) -> Registry:
        return Registry(self._caches.folder(caller.user))

    def open(self, caller: Caller, store: str) -> StoreFolder:
        return self.folder(self.registry(caller).get(store, caller))

    def folder(self, store: Store) -> StoreFolder:
        return StoreFolder(store, durable=self._durable)

    def existing(self, caller: Caller) -> Iterator[StoreFolder]:
        """The folders of all stores that have one."""
        folders = (self.folder(store) for store in self.registry(caller).all())
        return (folder for folder in folders if not folder.is_missing())

    def query(self, caller: Caller, folder: StoreFolder, read: Callable[[Catalogue], T]) -> T:
        """The result of `read` on the catalogue. Its file is a cache: if it cannot be read, it is created again."""
        try:
            return read(Catalogue(self._caches.database(caller.user), folder))
        except Unusable:
            self._caches.recreate(caller.user)
            return read(Catalogue(self._caches.database(caller.user), folder))
