"""What a store holds, without reading every file: a cache, brought in line with the folder each time it is asked."""

import unicodedata
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress

from memory_mcp.errors import AppError
from memory_mcp.sqlite import Database, Read, Write
from memory_mcp.stores import frontmatter, storage
from memory_mcp.stores.folders import SUFFIX, StoreFolder
from memory_mcp.stores.model import Listing, Parts, ReadFile, Summed

AT_ONCE = 1000  # files read before they are written down

Tell = Callable[[int, int], None]
"""Told how many files are read, of how many."""


class Catalogue:
    """One store, as its files are now."""

    def __init__(self, db: Database, folder: StoreFolder) -> None:
        self._db = db
        self._folder = folder
        self._key = str(folder.store.folder)

    @contextmanager
    def category(self, parts: Parts) -> Iterator[tuple[Read, Listing]]:
        """One category as it is now, and a view of the cache that agrees with it. Raises NotFound."""
        listing = self._folder.listing(parts)
        with self._db.read() as tx:
            is_known = not self._differing(tx, [listing])
            if is_known:
                yield tx, listing
        if not is_known:
            read = self._read_changed(listing)
            with self._db.write() as writing:
                self._put(writing, listing, read)
                yield writing, listing

    @contextmanager
    def below(
        self, parts: Parts, tell: Tell = lambda done, total: None, *, afresh: bool = False
    ) -> Iterator[tuple[Read, list[Listing]]]:
        """A category and all below it as they are now, and a view of the cache that agrees with them.

        `afresh` reads every file, whatever its time says.
        """
        listings = list(self._folder.listings(parts))
        with self._db.read() as tx:
            known = storage.fingerprints(tx, self._key, "/".join(parts))
            changed = listings if afresh else self._differing(tx, listings, known)
            is_known = not changed and len(known) == len(listings)
            if is_known:
                yield tx, listings
        if not is_known:
            self._read_and_put(changed, tell, afresh=afresh)
            with self._db.write() as writing:
                for listing in self._overtaken(writing, changed):
                    self._put(writing, listing, self._read_changed(listing))
                storage.keep_folders(writing, self._key, "/".join(parts), ("/".join(one.folder) for one in listings))
                yield writing, listings

    def _differing(
        self, tx: Read, listings: Iterable[Listing], known: dict[str, str | None] | None = None
    ) -> list[Listing]:
        """The folders that are not as they were when they were read."""
        if known is None:
            known = {"/".join(one.folder): storage.fingerprint(tx, self._key, "/".join(one.folder)) for one in listings}
        return [
            one for one in listings if one.fingerprint is None or known.get("/".join(one.folder)) != one.fingerprint
        ]

    def _overtaken(self, tx: Read, listings: Iterable[Listing]) -> list[Listing]:
        """The folders that another process has put in again since we did, as it saw them."""
        return [one for one in listings if storage.fingerprint(tx, self._key, "/".join(one.folder)) != one.fingerprint]

    def _read_and_put(self, changed: list[Listing], tell: Tell, *, afresh: bool) -> None:
        """Some folders at a time, so that other writers are not kept waiting."""
        done, total = 0, sum(len(listing.files) for listing in changed)
        for some in _batches(changed):
            read = [(listing, self._read_changed(listing, afresh=afresh)) for listing in some]
            with self._db.write() as tx:
                for listing, files in read:
                    self._put(tx, listing, files)
            done += sum(len(listing.files) for listing in some)
            tell(done, total)

    def _read_changed(self, listing: Listing, *, afresh: bool = False) -> dict[str, ReadFile | None]:
        """What the files say that are new or have changed since they were read, by their names on disk; None of one
        that cannot be read."""
        with self._db.read() as tx:
            known = {} if afresh else storage.signatures(tx, self._key, "/".join(listing.folder))
        changed = [file for file, signature in listing.files.items() if known.get(file) != signature]
        read: dict[str, ReadFile | None] = dict.fromkeys(changed)
        with suppress(AppError):  # the folder is gone by now
            for file, text, signature in self._folder.texts(listing, changed):
                path = unicodedata.normalize("NFC", "/".join((*listing.folder, file.removesuffix(SUFFIX))))
                read[file] = ReadFile(signature, summed(path, frontmatter.parse(text)))
        return read

    def _put(self, tx: Write, listing: Listing, read: dict[str, ReadFile | None]) -> None:
        storage.put_folder(tx, self._key, listing, is_read=None not in read.values())
        for file, one in read.items():
            if one is not None:
                storage.put_memory(tx, self._key, listing, file, one)


def summed(path: str, file: frontmatter.File) -> Summed:
    said = file.metadata
    return Summed(
        path=path,
        token_estimate=file.token_estimate,
        summary=file.summary,
        created_at=said.created_at,
        updated_at=said.updated_at,
        expires_at=said.expires_at,
        tags=said.tags,
    )


def _batches(listings: Iterable[Listing]) -> Iterator[list[Listing]]:
    some: list[Listing] = []
    for listing in listings:
        some.append(listing)
        if sum(len(one.files) for one in some) >= AT_ONCE:
            yield some
            some = []
    if some:
        yield some
