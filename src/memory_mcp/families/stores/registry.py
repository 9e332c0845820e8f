"""stores.yaml: the list of stores and their folders. A person may edit it; its comments stay."""

import logging
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from memory_mcp.caller import Caller
from memory_mcp.engines.files import atomic_write, data_directory
from memory_mcp.engines.files.lock import FileLock
from memory_mcp.engines.files.rooted_folder import Root
from memory_mcp.errors import Conflict, NotFound, Unavailable
from memory_mcp.families.stores import paths, yaml_text
from memory_mcp.families.stores.model import Store
from memory_mcp.text.names import hidden_character
from memory_mcp.text.nearness import not_found, seen_by

NAME = "stores.yaml"
OURS = "stores"  # the folder of stores that agents made

log = logging.getLogger(__name__)


class Registry:
    """The stores of one user, whose folder this is."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def all(self) -> list[Store]:
        """A line that names no folder is logged, and left out."""
        stores = []
        for name, path in sorted(self._paths().items()):
            try:
                stores.append(self._store(name, path))
            except Unavailable as exc:
                log.warning(exc.message)
        return stores

    def names(self) -> list[str]:
        """The names of all listed stores, even those whose lines name no folder. Raises Unavailable."""
        return sorted(self._paths())

    def get(self, name: str, caller: Caller | None = None) -> Store:
        """Raises NotFound (store_not_registered)."""
        known = self._paths()
        if name not in known:
            raise _not_registered(name, caller, known)
        return self._store(name, known[name])

    def get_or_make(self, name: str) -> Store:
        """A store, created under stores/ if it is missing. Raises Invalid for a name that no folder can have."""
        known = self._paths()
        return self._store(name, known[name]) if name in known else self.add(name, f"{OURS}/{name}", or_get=True)

    def add(self, name: str, path: str, *, or_get: bool = False) -> Store:
        """Register a folder. Raises Conflict if the name is taken, and Unavailable for a folder that cannot be one."""
        paths.check_store(name)
        with self._lock():
            known = self._paths()
            if name in known and or_get:  # another process was faster
                return self._store(name, known[name])
            for taken in known:
                if paths.comparison_key(taken) == paths.comparison_key(name):
                    raise Conflict(f"There is a store called {taken!r} already. Choose another name.", field="store")
            store = self._store(name, path)
            self._change(name, path)
        return store

    def remove(self, name: str, caller: Caller | None = None) -> Store:
        """Unregister a store. Its files stay where they are. Raises NotFound."""
        with self._lock():
            known = self._paths()
            if name not in known:
                raise _not_registered(name, caller, known)
            store = Store(name, str(known[name]), self._folder_at(name, known[name]), is_ours=False)
            self._change(name, None)
        return store

    def holder(self, folder: Path) -> Path | None:
        """The data directory that a folder is, holds or lies in, and that keeps it from being a store.

        Folders below `stores/` of a data directory are stores. Of the data directories below a folder, only this
        registry's own is looked for: those of others are left out when a store is read.
        """
        real, own = Path(os.path.realpath(folder)), Path(os.path.realpath(self._folder))
        if own.is_relative_to(real):
            return own
        for above in (real, *real.parents):
            if above == own or data_directory.is_at(above):
                inside = real.relative_to(above).parts
                return None if inside[:1] == (OURS,) and len(inside) > 1 else above
        return None

    def _lock(self) -> Any:
        data_directory.make_private_folder(self._folder)
        return FileLock(self._folder / f"{NAME}.lock").acquire()

    def _paths(self) -> dict[str, object]:
        """The value of each line, which should be the path of a folder."""
        try:
            found = yaml_text.load(self._text())
        except ValueError as exc:  # NotYaml, or not UTF-8
            raise _unreadable() from exc
        if not isinstance(found or {}, dict):
            raise _unreadable()
        return found or {}

    def _text(self) -> str:
        try:
            return (self._folder / NAME).read_text(encoding="utf-8")
        except FileNotFoundError:
            return ""

    def _change(self, name: str, path: str | None) -> None:
        try:
            text = yaml_text.with_values(self._text(), {name: path})
        except ValueError as exc:
            raise _unreadable() from exc
        with Root(self._folder).folder(()) as folder:
            atomic_write.write(folder.sibling(NAME), text.encode(), mode=0o600)

    def _store(self, name: str, path: object) -> Store:
        """Raises Unavailable for a line that names no folder, or one that no store may be, and for a name with a hidden
        character."""
        if hidden := hidden_character(name):
            raise Unavailable(
                f"The name {name!a} in {NAME}, in the data directory, holds {hidden}, which cannot be seen or "
                "changes how a line is shown, so the store is not used. Rename it there."
            )
        folder = self._folder_at(name, path)
        if self.holder(folder) is not None:
            raise Unavailable(
                f"The folder of the store {name!r} is, holds or lies in a data directory of Memory MCP, so it is not "
                f"used. Give the store a folder of its own in {NAME}, in the data directory, or unregister it with "
                f"`memory-mcp stores remove {name}`."
            )
        is_ours = Path(os.path.normpath(folder)).is_relative_to(os.path.normpath(self._folder))
        return Store(name, str(path), folder, is_ours)

    def _folder_at(self, name: str, path: object) -> Path:
        """Raises Unavailable for a line that names no folder."""
        try:
            if not path or not isinstance(path, str):
                raise _no_folder(name)
            return self._folder / Path(path).expanduser()
        except RuntimeError as exc:  # there is no user of that name
            raise _no_folder(name) from exc


def _not_registered(name: str, caller: Caller | None, known: Iterable[str]) -> NotFound:
    by_command = f"`memory-mcp stores add {name} PATH` registers a folder."
    return not_found(
        f"The store {name!r} is not registered.",
        name,
        seen_by(caller, lambda: (one for one in known if isinstance(one, str) and not hidden_character(one))),
        hint=f"add_memory makes it; {by_command}",
        people_hint=by_command,
        code="store_not_registered",
        field="store",
    )


def _no_folder(name: str) -> Unavailable:
    return Unavailable(f"The line of {name!r} in {NAME}, in the data directory, names no folder. Correct it.")


def _unreadable() -> Unavailable:
    return Unavailable(
        f"{NAME} in the data directory is not a list of names and folders. Correct it; nothing was changed."
    )
