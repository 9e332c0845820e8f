"""The contents of a store, without reading every file: a cache that each query brings up to date with the folder."""

import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from hashlib import blake2b

from memory_mcp.engines.files.signature import Signature
from memory_mcp.engines.sqlite import Database
from memory_mcp.engines.transactions import Read, Write
from memory_mcp.errors import NotFound
from memory_mcp.families.stores import frontmatter, paths, storage
from memory_mcp.families.stores.folder_scan import SUFFIX
from memory_mcp.families.stores.folders import StoreFolder
from memory_mcp.families.stores.model import Content, Listing, MemorySummary, PathParts, ReadFile
from memory_mcp.progress import ReportProgress, report_nothing

BATCH_FILES = 1000  # files read before they are written to the index
MAX_FORMER_CONTENTS = 10_000  # of a store, left by a refresh

ReadFiles = dict[str, ReadFile | None]
"""Files by their names on disk; None for one that cannot be read."""

Fingerprints = dict[str, str | None]
"""The stored fingerprint of each folder, by path."""


class Catalogue:
    """One store, as its files are now."""

    def __init__(self, db: Database, folder: StoreFolder) -> None:
        self._db = db
        self._folder = folder
        self._key = str(folder.store.folder)

    def category(self, parts: PathParts) -> tuple[Listing, list[MemorySummary]]:
        """The entries of one category, and its memories. Raises NotFound."""
        listing = self._folder.listing(parts)
        with self._db.read() as tx:
            if _is_unchanged(listing, storage.fingerprint(tx, self._key, listing.path)):
                return listing, storage.in_folder(tx, self._key, listing.path)
        read = self._read_changed(listing)
        with self._db.write() as tx:
            self._store(tx, listing, read)
            return listing, storage.in_folder(tx, self._key, listing.path)

    def recent(self, parts: PathParts, limit: int, expired_by: datetime | None) -> list[MemorySummary]:
        """The latest memories in and below a category, without those expired by a moment, if one is given."""
        with self._below(parts) as (tx, _):
            return storage.recent(tx, self._key, "/".join(parts), limit, expired_by)

    def expired(self, by: datetime) -> list[str]:
        """Paths of the memories that are expired by a moment."""
        with self._below(()) as (tx, _):
            return storage.expired(tx, self._key, by)

    def versions(self, expired_by: datetime) -> dict[str, str]:
        """By path, a value that changes whenever the file does; without those expired by a moment."""
        with self._below(()) as (tx, _):
            return storage.versions(tx, self._key, expired_by)

    def count(self, expired_by: datetime) -> int:
        """How many memories there are, without those expired by a moment."""
        with self._below(()) as (tx, _):
            return storage.count(tx, self._key, expired_by)

    def size(self, expired_by: datetime) -> tuple[int, str | None]:
        """The same count, and when a memory was last written."""
        with self._below(()) as (tx, _):
            latest = storage.recent(tx, self._key, "", 1, None)
            return storage.count(tx, self._key, expired_by), latest[0].updated_at if latest else None

    def refresh(self, report_progress: ReportProgress) -> tuple[list[Listing], int]:
        """Read every file, also if its time is unchanged. Returns the folders, the top first, and how many memories."""
        with self._below((), report_progress, reads_all=True) as (tx, listings):
            count = storage.count(tx, self._key)
        with self._db.write() as writing:
            storage.delete_former_contents(writing, self._key, MAX_FORMER_CONTENTS)
        return listings, count

    def updated_at(self, parts: PathParts, text: str, file: frontmatter.File, signature: Signature) -> str | None:
        """When a file that was just read was updated. Nothing is stored."""
        content = content_of(text, file)
        with self._db.read() as tx:
            before = storage.content(tx, self._key, "/".join(parts), parts[-1] + SUFFIX)
            return content.dated(signature[0], before, self._former(tx, content, before)).updated_at

    def delete(self) -> None:
        with self._db.write() as tx:
            storage.delete_store(tx, self._key)

    @contextmanager
    def _below(
        self, parts: PathParts, report_progress: ReportProgress = report_nothing, *, reads_all: bool = False
    ) -> Iterator[tuple[Read, list[Listing]]]:
        """A category and all below it as they are now, and a view of the cache that agrees with them."""
        listings = self._folder.listings(parts)
        with self._db.read() as tx:
            known = storage.fingerprints(tx, self._key, "/".join(parts))
            changed = [one for one in listings if reads_all or not _is_unchanged(one, known.get(one.path))]
            is_known = not changed and len(known) == len(listings)
            if is_known:
                yield tx, listings
        if not is_known:
            fingerprints = {one.path: one.fingerprint for one in listings} | self._read_and_store(
                changed, report_progress, reads_all=reads_all
            )
            with self._db.write() as writing:
                self._store_again(writing, parts, listings, fingerprints)
                yield writing, listings

    def _read_and_store(
        self, changed: list[Listing], report_progress: ReportProgress, *, reads_all: bool
    ) -> Fingerprints:
        """Read and store a few folders at a time, so that other writers do not wait long."""
        fingerprints: Fingerprints = {}
        done, total = 0, sum(len(listing.files) for listing in changed)
        for some in _batches(changed):
            read = [(listing, self._read_changed(listing, reads_all=reads_all)) for listing in some]
            with self._db.write() as tx:
                fingerprints |= {listing.path: self._store(tx, listing, files) for listing, files in read}
            done += sum(len(listing.files) for listing in some)
            report_progress("files read", done, total)
        return fingerprints

    def _store_again(self, tx: Write, parts: PathParts, listings: list[Listing], fingerprints: Fingerprints) -> None:
        """Store folders again that another process has stored meanwhile: it may have read them before we did."""
        known = storage.fingerprints(tx, self._key, "/".join(parts))
        for listing in listings:
            if known.get(listing.path) != fingerprints[listing.path]:
                self._store(tx, listing, {})
        storage.delete_other_folders(tx, self._key, "/".join(parts), (listing.path for listing in listings))

    def _read_changed(self, listing: Listing, *, reads_all: bool = False) -> ReadFiles:
        with self._db.read() as tx:
            files = list(listing.files) if reads_all else self._changed(tx, listing)
        return self._read(listing, files)

    def _changed(self, tx: Read, listing: Listing) -> list[str]:
        """The files that are new or have changed since they were read."""
        known = storage.signatures(tx, self._key, listing.path)
        return [file for file, signature in listing.files.items() if known.get(file) != signature]

    def _read(self, listing: Listing, files: Iterable[str]) -> ReadFiles:
        read: ReadFiles = dict.fromkeys(files)
        if not read:
            return read
        with suppress(NotFound):  # the folder is deleted by now
            for file, text, signature in self._folder.texts(listing, list(read)):
                path = paths.nfc("/".join((*listing.folder, file.removesuffix(SUFFIX))))
                parsed = frontmatter.parse(text)
                read[file] = ReadFile(signature, summary_of(path, parsed), content_of(text, parsed))
        return read

    def _store(self, tx: Write, listing: Listing, read: ReadFiles) -> str:
        """Bring the cache up to date with a folder, and return the folder's fingerprint.

        The read files are stored. Another process may have stored an older state of the other files meanwhile: such are
        read now. A file that cannot be read is removed from the cache, and its folder is read again next time.
        """
        read = read | self._read(listing, [file for file in self._changed(tx, listing) if file not in read])
        is_whole = all(one and one.signature == listing.files[file] for file, one in read.items())
        fingerprint = (is_whole and listing.fingerprint) or f"look again {secrets.token_hex(8)}"
        remembered = [file for file in listing.files if read.get(file, file)]
        storage.put_folder(tx, self._key, listing, fingerprint, remembered)
        before = storage.contents(tx, self._key, listing.path) if read else {}
        has_former = storage.has_former_contents(tx, self._key)
        for file, one in read.items():
            if one is not None:
                known = before.get(file)
                former = self._former(tx, one.content, known) if has_former else None
                dated = one.content.dated(one.signature[0], known, former)
                storage.put_memory(tx, self._key, listing, file, replace(one, content=dated))
        return fingerprint

    def _former(self, tx: Read, content: Content, before: Content | None) -> Content | None:
        is_same = before is not None and before.digest == content.digest
        return None if is_same else storage.former_content(tx, self._key, content.digest)


def _is_unchanged(listing: Listing, fingerprint: str | None) -> bool:
    return fingerprint is not None and listing.fingerprint == fingerprint


def summary_of(path: str, file: frontmatter.File) -> MemorySummary:
    metadata = file.metadata
    return MemorySummary(
        path=path,
        token_estimate=file.token_estimate,
        summary=file.summary,
        created_at=metadata.created_at,
        updated_at=metadata.updated_at,
        expires_at=metadata.expires_at,
        tags=metadata.tags,
    )


def content_of(text: str, file: frontmatter.File) -> Content:
    """The content regardless of line ends, which git changes in a checkout on Windows."""
    digest = blake2b(text.replace("\r\n", "\n").encode(errors="surrogatepass"), digest_size=16).digest()
    return Content(digest, file.metadata.updated_at)


def _batches(listings: Iterable[Listing]) -> Iterator[list[Listing]]:
    some: list[Listing] = []
    for listing in listings:
        some.append(listing)
        if sum(len(one.files) for one in some) >= BATCH_FILES:
            yield some
            some = []
    if some:
        yield some
