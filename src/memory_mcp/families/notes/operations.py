"""The operations on notes, in five parts."""

from functools import partial

from memory_mcp.caller import LOCAL_USER
from memory_mcp.changes import Changes
from memory_mcp.engines.sqlite.index_merge import IndexMerge
from memory_mcp.engines.transactions import UserDatabases
from memory_mcp.families.notes.change_events import VECTORS, NoteEvents
from memory_mcp.families.notes.reader import NoteReader
from memory_mcp.families.notes.review import NoteReview
from memory_mcp.families.notes.series import NoteSeries
from memory_mcp.families.notes.storage import index
from memory_mcp.families.notes.transfer import NoteTransfer
from memory_mcp.families.notes.writer import NoteWriter
from memory_mcp.services.embedding import Embedders
from memory_mcp.services.search_index import IndexFiles
from memory_mcp.text.time_spans import TimeReader


class Notes:
    def __init__(self, tenants: UserDatabases, changes: Changes, embedders: Embedders, times: TimeReader) -> None:
        notify = partial(changes.publish_topic, topic=VECTORS)
        self._files = IndexFiles(tenants, embedders, index.TABLES, index.texts_to_embed, notify)
        events = NoteEvents(changes, self._files)
        self.writer = NoteWriter(self._files, events)
        self.reader = NoteReader(self._files, events)
        self.transfer = NoteTransfer(self._files, events)
        self.review = NoteReview(self._files)
        self.series = NoteSeries(self._files, events)
        self.worker = self._files.worker
        self.times = times
        self.index_merge = IndexMerge(index.TABLES.words.name, tenants.opened)
        changes.listen(self.index_merge.merge_if_due)

    def maintain(self) -> None:
        """Work that may wait: on the files of packed vectors."""
        self._files.maintain()

    def close(self) -> None:
        self._files.erase_deleted()

    def open_local(self) -> None:
        """Open the local user's file now, so that a damaged or newer one is reported at the start."""
        self._files.of(LOCAL_USER)
