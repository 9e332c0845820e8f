"""The files of a store: reading, writing and listing them, and never anything outside of its folder."""

import errno
import os
import stat
import time
from collections.abc import Iterable, Iterator, Set
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from memory_mcp.engines.files import atomic_write
from memory_mcp.engines.files.data_directory import is_data_directory
from memory_mcp.engines.files.lock import LOCK_TIMEOUT_S, FileLock
from memory_mcp.engines.files.rename import rename_to_new
from memory_mcp.engines.files.rooted_folder import FolderEntry, Outside, Root
from memory_mcp.engines.files.signature import Signature, signature_of
from memory_mcp.errors import Conflict, Invalid, NotFound, Unavailable
from memory_mcp.families.stores import folder_scan, paths
from memory_mcp.families.stores.folder_scan import MAX_FILE_BYTES, SUFFIX
from memory_mcp.families.stores.model import Listing, PathParts, Store

INDEX = "index.yaml"
MAX_INDEX_BYTES = 10 * MAX_FILE_BYTES


class StoreFolder:
    """One store's folder, opened for one call."""

    def __init__(self, store: Store, *, durable: bool, lock: Path | None = None) -> None:
        """`lock`: the file that is locked, if it is not the store's folder itself."""
        self.store = store
        self._lock = FileLock(lock or store.folder)
        self._root = Root(store.folder, is_data_directory)
        self._durable = durable

    def is_missing(self) -> bool:
        """Whether nothing was ever written here. The folder of a registered store must exist."""
        return self.store.is_ours and not self.store.folder.is_dir()

    @contextmanager
    def lock(self, timeout_s: float = LOCK_TIMEOUT_S) -> Iterator[None]:
        """Hold the folder's lock, among all processes that write to it."""
        held = ExitStack()
        with self._translate_errors():
            if self.is_missing():
                self._make()
            if not self.store.folder.is_dir():
                raise FileNotFoundError
            held.enter_context(self._lock.acquire(timeout_s))
        with held:
            yield

    def _make(self) -> None:
        """Create this folder and those above it that are missing, each for its owner alone."""
        top = next(folder for folder in self.store.folder.parents if folder.is_dir())
        with Root(top).folder(self.store.folder.relative_to(top).parts, make=True, mode=0o700):
            pass

    # Memories

    def find(self, parts: PathParts) -> PathParts:
        """The path of a memory: `a.md` means `a`, unless a memory is called `a.md`."""
        plain = paths.without_suffix(parts)
        if plain == parts:
            return parts
        with suppress(OSError), self._memory(parts) as entry:
            entry.file_status()
            return parts
        return plain

    def read(self, parts: PathParts) -> tuple[str, Signature]:
        """A memory's text. Raises NotFound, and Invalid for a file too large to be one."""
        with self._translate_errors(parts), self._memory(parts) as entry:
            return _text(entry, parts)

    def read_bytes(self, parts: PathParts) -> tuple[bytes, Signature]:
        """The same, as it is on disk."""
        with self._translate_errors(parts), self._memory(parts) as entry:
            return _bytes(entry, parts)

    def add(self, parts: PathParts, text: str) -> Signature:
        """Write a new memory, with the categories it needs. Raises Conflict if one is there."""
        with self._translate_errors(parts), self._making(parts, "path"):
            self._check_clashes(parts, "path")
            with self._folder(parts[:-1], make=True) as folder:
                atomic_write.remove_unfinished(folder, time.time())
                entry = folder.sibling(parts[-1] + SUFFIX)
                try:
                    atomic_write.write_new(entry, text.encode(), durable=self._durable)
                except FileExistsError:
                    raise taken(parts, "path") from None
                return signature_of(entry.status())

    # Imported files, by the names they have on disk

    def content(self, parts: PathParts) -> bytes:
        """The content of a file; of a very large one, the beginning. Raises NotFound."""
        with self._translate_errors(parts), self._root.entry(self._spelt(parts)) as entry:
            return entry.read(MAX_FILE_BYTES + 1)[0]

    def check_alike(self, parts: PathParts) -> None:
        """Raises Conflict for a memory's file whose name differs from another's in upper and lower case only."""
        with self._translate_errors(parts), self._making(parts, "path"):
            self._check_clashes((*parts[:-1], parts[-1].removesuffix(SUFFIX)), "path")

    def add_file(self, parts: PathParts, content: bytes, changed_ns: int) -> bool:
        """Write a file as it is, with the categories it needs. False, and nothing is changed, if one is there."""
        with self._translate_errors(parts), self._making(parts, "path"), self._folder(parts[:-1], make=True) as folder:
            atomic_write.remove_unfinished(folder, time.time())
            try:
                atomic_write.write_new(folder.sibling(parts[-1]), content, durable=self._durable, changed_ns=changed_ns)
            except FileExistsError:
                return False
        return True

    def replace(self, parts: PathParts, content: bytes, seen: Signature) -> Signature | None:
        """Replace a memory's file. None, and nothing is written, if the file has changed since it was read."""
        with self._translate_errors(parts), self._memory(parts) as entry:
            entry.file_status()
            is_done = atomic_write.replace(
                entry, content, lambda status: signature_of(status) == seen, durable=self._durable
            )
            return signature_of(entry.file_status()) if is_done else None

    def remove(self, parts: PathParts) -> None:
        with self._translate_errors(parts), self._entry(parts) as entry:
            entry.remove()
            self._sync(entry)

    def move(self, source: PathParts, target: PathParts) -> None:
        """Raises NotFound without a source, and Conflict with a target or for a symlink that would lead elsewhere."""
        with self._translate_errors(source, field="from_path"), self._entry(source) as entry:
            if source == target:
                raise Conflict("to_path: this is where the memory is. Give another path.", field="to_path")
            if source[:-1] != target[:-1] and entry.is_relative_link():
                raise Conflict(
                    f"{'/'.join(source)!r} is a symlink, which would lead elsewhere from another category. Move the "
                    "memory it leads to.",
                    field="from_path",
                )
            with self._translate_errors(target, field="to_path"):
                with self._making(target, "to_path"):
                    self._check_clashes(target, "to_path", moving=source)
                with self._folder(target[:-1], make=True) as folder:
                    there = folder.sibling(target[-1] + SUFFIX)
                    self._rename(entry, there, target)
                    self._sync(there)
            self._sync(entry)

    def _sync(self, entry: FolderEntry) -> None:
        if self._durable:
            entry.sync_folder()

    @staticmethod
    def _rename(entry: FolderEntry, there: FolderEntry, target: PathParts) -> None:
        try:
            if _exists(there) and _same(entry, there):
                entry.rename(there)  # upper and lower case of one name
                return
            if rename_to_new(entry, there):
                return
        except FileExistsError:
            raise taken(target, "to_path") from None
        if _exists(there):
            raise taken(target, "to_path")
        entry.rename(there)

    # Categories

    def has_category(self, parts: PathParts) -> bool:
        try:
            with self._folder(parts):
                return True
        except OSError:
            return False

    def listing(self, parts: PathParts) -> Listing:
        """Raises NotFound if there is no such category."""
        with self._translate_errors(parts, "category"), self._folder(parts) as folder:
            return folder_scan.listing(folder, parts)

    def listings(self, parts: PathParts) -> list[Listing]:
        """A category's folder and all below it. Symlinks are not followed: their targets are listed where they are."""
        with self._translate_errors(parts, "category"), self._folder(parts) as folder:
            return folder_scan.below(folder, parts)

    def texts(self, listing: Listing, files: Iterable[str]) -> Iterator[tuple[str, str, Signature]]:
        """Files of a folder, each with its text. Those that are deleted by now, or cannot be read, are left out."""
        with self._translate_errors(listing.folder, "category"), self._folder(listing.folder) as folder:
            for file in files:
                with suppress(OSError, Invalid):
                    yield file, *_text(folder.sibling(file), (*listing.folder, file))

    def index(self, parts: PathParts) -> str | None:
        """The text of a category's index.yaml, empty if it has none. None if it is no regular file."""
        with self._translate_errors(parts, "category"), self._folder(parts) as folder:
            entry = folder.sibling(INDEX)
            try:
                kind = entry.status().st_mode
            except FileNotFoundError:
                return ""
            if not stat.S_ISREG(kind):
                return None
            return _text(entry, (*parts, INDEX), MAX_INDEX_BYTES)[0]

    def write_index(self, parts: PathParts, text: str, *, keep_old: bool) -> None:
        """Write a category's index.yaml; `keep_old` renames the former file."""
        with self._translate_errors(parts, "category"), self._folder(parts) as folder:
            entry = folder.sibling(INDEX)
            if keep_old:
                entry.rename(folder.sibling(f"{INDEX}.kept-{time.time_ns()}"))
            atomic_write.write(entry, text.encode(), durable=False)

    # Names

    @contextmanager
    def _folder(self, parts: PathParts, *, make: bool = False) -> Iterator[FolderEntry]:
        """The folder of a category, also under names that are spelt in another Unicode form on disk."""
        with self._root.folder(self._spelt(parts), make=make) as folder:
            yield folder

    @contextmanager
    def _memory(self, parts: PathParts) -> Iterator[FolderEntry]:
        """The file of a memory, also under a name that is spelt in another Unicode form on disk."""
        with self._root.entry(self._spelt(_file(parts))) as entry:
            yield entry

    @contextmanager
    def _entry(self, parts: PathParts) -> Iterator[FolderEntry]:
        """The same, but where it is a symlink to a file inside, the symlink itself. Raises FileNotFoundError."""
        found = self._spelt(_file(parts))
        with self._root.entry(found) as entry:
            entry.file_status()
        with self._root.folder(found[:-1]) as folder:
            yield folder.sibling(found[-1])

    def _spelt(self, parts: PathParts) -> PathParts:
        """A path as its names are spelt on disk: macOS may store accents as separate characters."""
        if all(part.isascii() for part in parts):
            return parts
        way: PathParts = ()
        for part in parts:
            with suppress(OSError), self._root.folder(way) as folder:
                if not part.isascii() and not _exists(folder.sibling(part)):
                    part = next((name for name in _names(folder) if paths.nfc(name) == part), part)
            way = (*way, part)
        return way

    def _check_clashes(self, parts: PathParts, field: str, moving: PathParts | None = None) -> None:
        """Raises Conflict if the path of a new memory differs from an existing one in upper and lower case only."""
        way: PathParts = ()
        for part in self._spelt(parts[:-1]):
            if not self._siblings_allow(way, part, field):
                return
            way = (*way, part)
        leaving = {moving[-1] + SUFFIX} if moving and moving[:-1] == parts[:-1] else set()
        self._siblings_allow(way, parts[-1] + SUFFIX, field, leaving)

    def _siblings_allow(self, way: PathParts, name: str, field: str, leaving: Set[str] = frozenset()) -> bool:
        """False if the folder does not exist yet, so that nothing can clash."""
        try:
            with self._root.folder(way) as folder:
                if not _exists(folder.sibling(name)):
                    paths.check_clash(name, set(_names(folder)) - leaving, field)
                return True
        except FileNotFoundError:
            return False

    @contextmanager
    def _making(self, parts: PathParts, field: str) -> Iterator[None]:
        """Raises Conflict where a category should be made and a file is."""
        try:
            yield
        except NotADirectoryError as exc:
            raise Conflict(
                f"{field}: a part of {'/'.join(parts)!r} is a file, not a category. Choose another path.", field=field
            ) from exc

    @contextmanager
    def _translate_errors(
        self, parts: PathParts = (), what: str = "memory", field: str | None = None
    ) -> Iterator[None]:
        """Translate errors of the file system, and name the argument that caused them."""
        name = "/".join(parts)
        try:
            yield
        except FileNotFoundError as exc:
            if not self.store.is_ours and not self.store.folder.is_dir():
                raise Unavailable(
                    f"The folder of the store {self.store.name!r} is not there. Bring it back, or unregister the store "
                    f"with `memory-mcp stores remove {self.store.name}`."
                ) from exc
            raise missing(self.store.name, name, what, field) from exc
        except (Outside, NotADirectoryError) as exc:
            raise missing(self.store.name, name, what, field) from exc
        except OSError as exc:
            if exc.errno == errno.ENAMETOOLONG:
                raise Invalid(f"{name[:80]!r}… is too long a name. Shorten it.", field=field or "path") from exc
            why = os.strerror(exc.errno) if exc.errno else "the disk refused"
            raise Unavailable(f"The folder of the store {self.store.name!r} cannot be used: {why}.") from exc


def missing(store: str, name: str, what: str, field: str | None = None) -> NotFound:
    field = field or ("path" if what == "memory" else what)
    return NotFound(
        f"There is no {what} {name!r} in the store {store!r}.", hint="list_memories shows what there is.", field=field
    )


def taken(parts: PathParts, field: str) -> Conflict:
    return Conflict(f"There is a memory at {'/'.join(parts)!r} already.", hint="update_memory changes it.", field=field)


def _file(parts: PathParts) -> PathParts:
    return (*parts[:-1], parts[-1] + SUFFIX)


def _text(entry: FolderEntry, parts: PathParts, max_bytes: int = MAX_FILE_BYTES) -> tuple[str, Signature]:
    data, signature = _bytes(entry, parts, max_bytes)
    return data.decode("utf-8", "replace"), signature


def _bytes(entry: FolderEntry, parts: PathParts, max_bytes: int = MAX_FILE_BYTES) -> tuple[bytes, Signature]:
    data, status = entry.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise Invalid(f"{'/'.join(parts)!r} is over {max_bytes} bytes long. Split the file.", code="too_large")
    return data, signature_of(status)


def _names(folder: FolderEntry) -> list[str]:
    return os.listdir(folder.folder_fd_or_path)


def _exists(entry: FolderEntry) -> bool:
    try:
        entry.status()
    except FileNotFoundError:
        return False
    return True


def _same(one: FolderEntry, other: FolderEntry) -> bool:
    """One file under two names, where upper and lower case are the same. Two hard links are two files."""
    return paths.comparison_key(one.name) == paths.comparison_key(other.name) and os.path.samestat(
        one.status(), other.status()
    )
