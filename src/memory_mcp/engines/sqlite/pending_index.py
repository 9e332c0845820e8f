"""Reading a file whose rows other programs may have changed: they are indexed first."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from memory_mcp.engines.transactions import Read, UserDatabase, Write
from memory_mcp.errors import Unavailable

log = logging.getLogger(__name__)


@contextmanager
def read_indexed(
    db: UserDatabase, has_changes: Callable[[Read], bool], index_changes: Callable[[Write], object]
) -> Iterator[Read]:
    """Read the file after correcting and indexing the rows that other programs wrote before this call."""
    with db.read() as tx:
        if not has_changes(tx):
            yield tx
            return
    try:
        with db.write() as writing:
            index_changes(writing)
    except Unavailable as exc:  # a search of what is indexed is better than none
        log.warning("Rows that another program wrote are not indexed yet: %s", exc.message)
    with db.read() as tx:
        yield tx
