"""What changes, as it happens, for pages that show it."""

import json
from collections.abc import AsyncIterator
from dataclasses import asdict

from fastapi import Request
from sse_starlette import EventSourceResponse, ServerSentEvent

from memory_mcp.doors.listeners import Listeners
from memory_mcp.doors.rest.people import Person
from memory_mcp.doors.rest.routes import mine

PING = 15  # seconds between two signs of life, so that a page notices when the server is gone


@mine.get("/events", response_class=EventSourceResponse)
async def events(request: Request, person: Person) -> EventSourceResponse:
    """A stream of `change` events, each with the addresses of what changed in your memory."""
    return EventSourceResponse(_told(request.app.state.listeners, person.id), ping=PING)


async def _told(listeners: Listeners, user: str) -> AsyncIterator[ServerSentEvent]:
    with listeners.page(user) as changes:
        yield ServerSentEvent(event="hello", data="{}")
        while change := await changes.get():
            said = asdict(change)
            del said["user"]
            yield ServerSentEvent(event="change", data=json.dumps(said))
