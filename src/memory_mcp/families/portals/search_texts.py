"""The rows of portals as texts, for recall."""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from hashlib import blake2b

from memory_mcp.caller import Caller
from memory_mcp.clock import instant
from memory_mcp.families.portals import storage
from memory_mcp.families.portals.address import Address, RowRange
from memory_mcp.families.portals.folders import PortalFolder
from memory_mcp.families.portals.model import METADATA, Column, Record, Table
from memory_mcp.families.portals.operations import Portals
from memory_mcp.families.texts import Group, Text
from memory_mcp.services.search.text_facts import TextFacts

MAX_ROWS_PER_TABLE = 2000  # of each table: the newest, where it has a time; fewer where the engine cuts large ones off
MAX_TITLE_CHARS = 80


class PortalTexts:
    """One portal, read when its texts are wanted."""

    def __init__(self, portals: Portals, caller: Caller, folder: PortalFolder) -> None:
        self._portals = portals
        self._caller = caller
        self._folder = folder
        self._texts: dict[str, Text] = {}

    def versions(self) -> dict[str, str]:
        """A row is its text, and the time of the newest with this text."""
        _, tables = self._portals.described(self._caller, self._folder.address)
        for table in tables:
            if table.name != METADATA:
                for key, text in self._rows(table):
                    self._texts.setdefault(key, text)
        return {key: text.facts.created_at or "" for key, text in self._texts.items()}

    def texts(self, keys: Sequence[str]) -> Iterator[Text | None]:
        return map(self._texts.get, keys)

    def _rows(self, table: Table) -> Iterator[tuple[str, Text]]:
        folder = self._folder.address
        address = Address(folder.namespace, folder.portal, table.name)
        moment = storage.time_column(table)
        newest = RowRange(limit=MAX_ROWS_PER_TABLE, order=f"-{moment}" if moment else None)
        names = [column.name for column in table.columns if _is_text(column)]
        sessions = self._portals.journal.sessions(self._caller, address)
        rows, _ = self._portals.page(self._caller, address, newest, is_counted=False)
        for row in rows:
            texts = _texts_in(row, names)
            if texts:
                title = f"{table.name}: {' '.join(texts[0].split())}"[:MAX_TITLE_CHARS]
                content = "\n".join(texts)
                key = f"{table.name} {blake2b(content.encode(), digest_size=12).hexdigest()}"
                at = str(row[moment]) if moment and row[moment] else None
                session_id = sessions.session_at(instant(at)) if at else None
                written_at = at if session_id else None
                facts = TextFacts(at, at, namespace=address.namespace, session_id=session_id, written_at=written_at)
                yield key, Text(f"{address.portal_uri}/{table.name}", title, content, name=table.name, facts=facts)


def group_name(address: Address) -> str:
    return f"{address.namespace}/{address.portal}"


def groups(portals: Portals, caller: Caller) -> Iterator[Group]:
    for folder in portals.all(caller):
        texts = PortalTexts(portals, caller, folder)
        with suppress(FileNotFoundError):  # deleted by now
            yield Group(group_name(folder.address), texts.versions, texts.texts, folder.version())


def _is_text(column: Column) -> bool:
    """Dates are texts, too: they are found by their words."""
    return "String" in column.type or "JSON" in column.type or re.search(r"\bDate(32)?\b", column.type) is not None


def _texts_in(row: Record, names: Sequence[str]) -> list[str]:
    """The texts of a row, the longest first: it says most about it."""
    values = [row[name] for name in names if row[name]]
    texts = [value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) for value in values]
    return sorted(texts, key=len, reverse=True)
