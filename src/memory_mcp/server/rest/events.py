"""A stream of change events for pages of the web app."""

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
from memory_mcp.server.rest.routes import user_router
from memory_mcp.server.subscriptions import Listeners

SignInCheck = Callable[[], Awaitable[object]]
PING_INTERVAL_S = 15  # so that a page notices when the server has stopped
SIGN_IN_CHECK_INTERVAL_S = 1.0  # between two checks that the user is still signed in


@user_router.get(
    "/events",
    response_class=EventSourceResponse,
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
)
async def events(request: Request, who: Person) -> EventSourceResponse:
    """A stream of `change` events: the addresses of changed memories (`uris`), whether resources were added or removed
    (`list_changed`), and other changes (`topics`): `clients`, `keys`, `vectors`, `sync`, `conversations`, or a
    family that was written to."""
    check_sign_in = partial(pools_of(request).access.run, person_finder(request), user=who.id, family=REST)
    return EventSourceResponse(_stream(request.app.state.listeners, who.id, check_sign_in), ping=PING_INTERVAL_S)


async def _stream(listeners: Listeners, user: str, check_sign_in: SignInCheck) -> AsyncIterator[ServerSentEvent]:
    """Events until the server stops, or `check_sign_in` finds that the user is no longer signed in."""
    with listeners.page(user) as changes:
        yield ServerSentEvent(event="hello", data="{}")
        while True:
            try:
                change = await asyncio.wait_for(changes.get(), SIGN_IN_CHECK_INTERVAL_S)
            except TimeoutError:
                change = None
            else:
                if change is None:
                    return
            if not await _is_signed_in(check_sign_in):
                return
            if change:
                data = asdict(change)
                del data["user"]
                yield ServerSentEvent(event="change", data=json.dumps(data))


async def _is_signed_in(check_sign_in: SignInCheck) -> bool:
    try:
        await check_sign_in()
    except Unavailable:
        return True  # unknown for now: the next check decides
    except AppError:
        return False
    return True
