"""Pages of resources/list, filled from as many families as fit. A cursor names a family and has its own one."""

import base64
import binascii
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import mcp_types as types

from memory_mcp.errors import AppError
from memory_mcp.families.family import Family, ListedResource, ResourcePage, bad_cursor
from memory_mcp.text.invisible_characters import show
from memory_mcp.text.names import visible

MAX_RESOURCES = 100  # on one page
MIN_PART = 10  # of a page that a family starts on; with less left, it starts on the next page

ListPart = Callable[[Family[Any], str | None, int], Awaitable[ResourcePage]]
"""At most so many resources of a family, after a cursor of that family."""


async def fill(families: Sequence[Family[Any]], cursor: str | None, list_part: ListPart) -> types.ListResourcesResult:
    """The page at a cursor. Raises AppError if the first family on it cannot be listed. If a later one cannot, the page
    ends before it."""
    names = [family.name for family in families]
    start, family_cursor = _decode_cursor(cursor, names) if cursor is not None else (0, None)
    found: list[ListedResource] = []
    for family in families[start:]:
        limit = MAX_RESOURCES - len(found)
        if limit < MIN_PART:
            return _result(found, _encode_cursor(family.name, family_cursor))
        try:
            part = await list_part(family, family_cursor, limit)
        except AppError:
            if not found:
                raise
            return _result(found, _encode_cursor(family.name, family_cursor))
        found += part.resources
        if part.next_cursor:
            return _result(found, _encode_cursor(family.name, part.next_cursor))
        family_cursor = None
    return _result(found, None)


def _result(found: Sequence[ListedResource], next_cursor: str | None) -> types.ListResourcesResult:
    resources = [
        types.Resource(
            uri=item.uri,
            name=show(visible(item.name)),
            title=item.title and show(visible(item.title)),
            description=item.description and show(visible(item.description)),
            mime_type=item.mime_type,
            _meta=dict(item.meta) or None,
        )
        for item in found
    ]
    return types.ListResourcesResult(resources=resources, next_cursor=next_cursor)


def _encode_cursor(family: str, family_cursor: str | None) -> str:
    return base64.urlsafe_b64encode(f"{family}/{family_cursor or ''}".encode()).decode()


def _decode_cursor(cursor: str, families: Sequence[str]) -> tuple[int, str | None]:
    """The number of the family, and its own cursor. Raises Invalid for a cursor that this server did not create."""
    try:
        family, _, family_cursor = base64.urlsafe_b64decode(cursor.encode()).decode().partition("/")
    except (binascii.Error, ValueError) as exc:
        raise bad_cursor() from exc
    if family not in families:
        raise bad_cursor()
    return families.index(family), family_cursor or None
