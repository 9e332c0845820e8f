"""Sync of a user's notes, as with `memory-mcp sync` on the command line."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Body, Depends
from pydantic import BaseModel, Field

from memory_mcp.app import App
from memory_mcp.caller import LOCAL_USER, Caller, Scope
from memory_mcp.errors import Forbidden
from memory_mcp.server.rest.authentication import PersonRoute, TheApp, ThePerson
from memory_mcp.server.rest.common import refusals, require, unstored
from memory_mcp.server.rest.shapes import RequestBody
from memory_mcp.services.sync import Sync, SyncState
from memory_mcp.services.sync.encryption import SECRET
from memory_mcp.text.names import MAX_NAMESPACE_CHARS, READABLE_PATTERN

router = APIRouter(
    prefix="/api/mcp/sync",
    route_class=PersonRoute,
    dependencies=[Depends(unstored)],
    responses=refusals(401, 403, 421, 503),
)


class NamespaceSynced(BaseModel):
    namespace: str
    enabled: bool
    notes: int
    outbox: int = Field(description="Notes with changes the hub has not acknowledged.")
    to_pull: int = Field(description="Changes on the hub that were not received yet at the last request.")
    refused: list[str] = Field(description="Why the hub refused records of the outbox; up to 20.")
    cursor: int
    enabled_at: str
    pushed_at: str | None
    pulled_at: str | None


class RecordSetAside(BaseModel):
    id: str = Field(description="Of the note; empty if the record names none.")
    reason: str


class SyncStatus(BaseModel):
    linked: bool
    url: str | None
    encrypted: bool
    node: str
    synced_at: str | None = Field(description="When everything was last synced.")
    error: str | None = Field(description="Why the last sync failed.")
    outbox: int
    namespaces: list[NamespaceSynced]
    set_aside: list[RecordSetAside] = Field(
        description="Notes on the hub that could not be stored here, the latest 20. `resync` requests them again."
    )

    @classmethod
    def of(cls, status: SyncState) -> "SyncStatus":
        return cls.model_validate(asdict(status))


class LinkRequest(RequestBody):
    url: str = Field(description="The URL of `memory-mcp hub`.", max_length=2000)
    key: str = Field(description="A key created on the hub.", min_length=1, max_length=200, pattern=READABLE_PATTERN)
    encrypt: bool = Field(False, description="Encrypt notes before sending, with a new secret.")
    secret: Annotated[str, Field(pattern=SECRET)] | None = Field(None, description="The secret of your other nodes.")


class LinkedHub(BaseModel):
    url: str
    encrypted: bool
    secret: str | None = Field(description="For your other nodes; shown this once, if it is new.")


class Exchanged(BaseModel):
    pushed: int
    pulled: int
    refused: int
    left: int


Namespace = Annotated[
    str,
    Body(
        embed=True,
        min_length=1,
        max_length=MAX_NAMESPACE_CHARS,
        pattern=READABLE_PATTERN,
        description="A namespace of notes.",
    ),
]


@router.get("/status")
def status(app: TheApp, person: ThePerson) -> SyncStatus:
    """The hub, and how much each namespace has to send and receive."""
    require(person, "notes", Scope.READ)
    return SyncStatus.of(app.sync.status(person.user))


@router.post("/link", responses=refusals(400, 409, 413, 422, 429))
def link(body: LinkRequest, app: TheApp, person: ThePerson) -> LinkedHub:
    """Set the hub. The server checks the connection first; nothing is sent until a namespace is enabled."""
    _require_owner(person)
    made = app.sync.link(person.user, body.url, body.key, secret=body.secret, encrypt=body.encrypt)
    app.sync_worker.try_again(person.user)
    return LinkedHub(url=made.url, encrypted=bool(made.secret), secret=made.secret if body.encrypt else None)


@router.post("/unlink", responses=refusals(409))
def unlink(app: TheApp, person: ThePerson) -> SyncStatus:
    """Stop syncing and forget the hub. Notes stay, here and on the hub."""
    _require_owner(person)
    app.sync.unlink(person.user)
    return SyncStatus.of(app.sync.status(person.user))


@router.post("/enable", responses=refusals(400, 409, 413, 422))
def enable(namespace: Namespace, app: TheApp, person: ThePerson) -> SyncStatus:
    """Sync a namespace from now on."""
    return _change(app, person, Sync.enable, namespace)


@router.post("/disable", responses=refusals(400, 404, 413, 422))
def disable(namespace: Namespace, app: TheApp, person: ThePerson) -> SyncStatus:
    """Stop syncing a namespace. Changes wait until it is enabled again."""
    return _change(app, person, Sync.disable, namespace)


@router.post("/resync", responses=refusals(400, 404, 413, 422))
def resync(namespace: Namespace, app: TheApp, person: ThePerson) -> SyncStatus:
    """Send and receive all notes again. Nothing is lost."""
    return _change(app, person, Sync.resync, namespace)


@router.post("/clear-state", responses=refusals(400, 404, 413, 422))
def clear_state(namespace: Namespace, app: TheApp, person: ThePerson) -> SyncStatus:
    """Stop syncing a namespace, and delete its sync state. Its notes stay."""
    return _change(app, person, Sync.clear_state, namespace)


@router.post("/now", responses=refusals(409, 422, 429))
def now(app: TheApp, person: ThePerson) -> Exchanged:
    """Push and pull once."""
    require(person, "notes", Scope.WRITE)
    done = app.sync.run(person.user)
    return Exchanged(**asdict(done), left=app.sync.status(person.user).left)


def _change(app: App, person: Caller, verb: Callable[[Sync, str, str], None], namespace: str) -> SyncStatus:
    require(person, "notes", Scope.WRITE)
    verb(app.sync, person.user, namespace)
    app.sync_worker.wake(person.user)
    return SyncStatus.of(app.sync.status(person.user))


def _require_owner(person: Caller) -> None:
    """The server itself connects to the hub's address, so only its owner may choose it."""
    require(person, "notes", Scope.WRITE)
    if person.user != LOCAL_USER:
        raise Forbidden(
            "Only the owner of this server chooses a hub. Ask them for "
            "`memory-mcp sync link URL --key KEY --user YOUR_NAME`."
        )
