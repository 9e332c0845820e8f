"""What changes, as it happens, for pages that show it."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import asdict
from functools import partial

from fastapi import Request
from sse_starlette import EventSourceResponse, ServerSentEvent

from memory_mcp.errors import AppError, Unavailable
from memory_mcp.server.fair_routes import REST, pools_of
from memory_mcp.server.rest.authentication import Person, person_finder
from memory_mcp.server.rest.routes import mine
from memory_mcp.server.subscriptions import Listeners

Look = Callable[[], Awaitable[object]]
PING = 15  # seconds between two signs of life, so that a page notices when the server is gone
LOOK = 1.0  # seconds between two looks whether the person is still signed in


@mine.get(
    "/events",
    response_class=EventSourceResponse,
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
)
async def events(request: Request, who: Person) -> EventSourceResponse:
    """A stream of `change` events: the addresses of what changed in your memory (`uris`), whether resources came or
    went (`list_changed`), what else changed (`topics`): `clients`, `keys`, `vectors`, `sync`, a family that was written
    to."""
    look = partial(pools_of(request).access.run, person_finder(request), user=who.id, family=REST)
    return EventSourceResponse(_told(request.app.state.listeners, who.id, look), ping=PING)


async def _told(listeners: Listeners, user: str, look: Look) -> AsyncIterator[ServerSentEvent]:
    """Until the server stops, or `look` finds that the person is not signed in any more."""
    with listeners.page(user) as changes:
        yield ServerSentEvent(event="hello", data="{}")
        while True:
            try:
                change = await asyncio.wait_for(changes.get(), LOOK)
            except TimeoutError:
                change = None
            else:
                if change is None:
                    return
            if not await _is_signed_in(look):
                return
            if change:
                said = asdict(change)
                del said["user"]
                yield ServerSentEvent(event="change", data=json.dumps(said))


async def _is_signed_in(look: Look) -> bool:
    try:
        await look()
    except Unavailable:
        return True  # not known now; the next check will tell
    except AppError:
        return False
    return True
