"""The first message of a relay, with all that belongs to its connection. docs/shared-server.md describes it."""

import json
import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from memory_mcp import settings
from memory_mcp.app import App
from memory_mcp.caller import LOCAL_USER, Caller, parse_scopes
from memory_mcp.clock import new_id
from memory_mcp.errors import AppError, Invalid
from memory_mcp.families import registry
from memory_mcp.relay import protocol
from memory_mcp.server.request_context import StreamClient
from memory_mcp.services.sessions import Connection

CONNECTION_SETTINGS = {"families", "scopes", "session_id", "shared"}
"""Settings that may differ between the stdio clients of a shared server."""
HTTP_SETTINGS = {
    *("transport", "host", "port", "auth", "allowed_hosts", "public_url", "forwarded_allow_ips", "rate_limits"),
    *("session_idle", "max_sessions", "max_user_sessions", "max_user_streams", "header_seconds", "body_seconds"),
    *("send_seconds", "address_connections", "user_connections", "user_request_bytes", "user_handshakes"),
    *("drain_seconds", "refused_connections", "browser_transfers", "server_url"),
}
"""Settings without a meaning for stdio clients."""
SERVER_SETTINGS = {"log_level", "shared_idle"}
"""Settings that clients do not notice: those of the client that starts the shared server count."""
MAX_HELLO_BYTES = 64 * 1024 * 1024  # it may hold requests that the last server did not answer


class LostRequest(BaseModel):
    """A request that the last server has received and not answered."""

    line: str
    attempts: int = 1


class Hello(BaseModel):
    model_config = ConfigDict(frozen=True)

    protocol: int
    version: Annotated[str, Field(max_length=100)]
    verb: Annotated[str, Field(max_length=100)] = "serve"
    arguments: Annotated[list[str], Field(max_length=1000)] = []
    environ: Mapping[str, str] = {}
    connection: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")] | None = None
    setup: list[dict[str, Any]] = []
    lost: list[LostRequest] = []
    payload: dict[str, Any] = {}  # of a verb beside MCP


def parse(line: bytes) -> Hello:
    """Raises Invalid."""
    try:
        fields = json.loads(line)
        if fields.get(protocol.KEY) != protocol.HELLO:
            raise Invalid("this is not the hello of a relay")
        hello = Hello.model_validate(fields)
    except (ValueError, AttributeError, RecursionError, ValidationError) as exc:
        raise Invalid("the hello of the relay cannot be read") from exc
    if hello.protocol != protocol.VERSION:
        raise Invalid(f"the shared server speaks version {protocol.VERSION} of the relay's protocol")
    return hello


def is_newer(version: str, than: str) -> bool:
    return _numbers(version) > _numbers(than)


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]


def check_settings(app: App, hello: Hello, prefix: str = "") -> settings.Settings:
    """The settings of the client. Raises Invalid if those of this server whose name starts with `prefix` differ."""
    try:
        given = settings.parser("memory-mcp serve").parse(hello.arguments)
        chosen = settings.load(given, hello.environ).settings
        registry.select(app.families, chosen.families)
    except AppError as exc:
        raise Invalid(exc.message) from exc
    differing = _differing(app.settings, chosen)
    if app.settings.families and not chosen.families:
        differing.append("families")
    if differing := [name for name in differing if name.startswith(prefix)]:
        raise Invalid(f"these settings differ from the shared server's: {', '.join(differing)}")
    return chosen


def client_of(app: App, hello: Hello) -> StreamClient:
    """The connection that a relay requests. Raises Invalid if this server's settings are not those of the client."""
    chosen = check_settings(app, hello)
    families = frozenset(registry.select(app.families, chosen.families))
    scopes = parse_scopes(chosen.scopes)
    named = chosen.session_id
    connection = Connection(
        LOCAL_USER, named or hello.connection or new_id(), own_is_named=named is not None, relay=hello.connection
    )
    connection.id = hello.connection or connection.id
    return StreamClient(Caller(LOCAL_USER, scopes, families), connection, "stdio")


def _differing(own: settings.Settings, theirs: settings.Settings) -> list[str]:
    ignored = (
        CONNECTION_SETTINGS | HTTP_SETTINGS | SERVER_SETTINGS | {"data_dir"}
    )  # the relay has found this server in it
    if "openai" not in (own.embedder, theirs.embedder):
        ignored |= {"openai_base_url", "openai_api_key"}  # other programs use these variables, too
    names = [name for name in settings.Settings.model_fields if name not in ignored]
    return [name for name in names if getattr(own, name) != getattr(theirs, name)]
