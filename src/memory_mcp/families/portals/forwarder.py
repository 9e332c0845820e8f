"""Portals of several servers on one PostgreSQL: each user's are on one of them, and the others forward calls to it."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import astuple, replace
from functools import partial, wraps
from typing import TYPE_CHECKING, Any

from memory_mcp.caller import Caller, Scope
from memory_mcp.errors import Unavailable
from memory_mcp.families.family import Arguments, Call, Document, Family, Tool
from memory_mcp.families.maintenance import ExportFolder, ExportUndo, FamilyMaintenance, ImportFolder
from memory_mcp.families.portals import forwarded_files, maintenance, references, resources, search_texts
from memory_mcp.families.portals.address import Address
from memory_mcp.families.portals.family import delete_expired, prepare
from memory_mcp.families.portals.forwarded_calls import (
    TOOL,
    IndexedText,
    ReceivedCall,
    answers_of,
    is_write,
    new_call,
    operations,
)
from memory_mcp.families.portals.model import VIEWER, PortalSummary
from memory_mcp.families.portals.operations import Portals
from memory_mcp.families.portals.row_undo import FoundRows, RowUndo
from memory_mcp.families.portals.tools import portals as family
from memory_mcp.families.texts import Group, Text
from memory_mcp.families.writes import Journal
from memory_mcp.services.server_calls import ServerClient

if TYPE_CHECKING:
    from memory_mcp.engines.postgres.portal_servers import PortalServer, PortalServers


class Forwarder:
    """Knows which server has a user's portals, and forwards calls to it."""

    def __init__(
        self,
        directory: "PortalServers",
        own_id: str,
        own_url: str | None,
        client: ServerClient,
        delete_folder: Callable[[str], None],
    ) -> None:
        """`own_url` is where other servers reach this one; None: they do not. `delete_folder` deletes all files of a
        user here."""
        self.directory = directory
        self.own_id = own_id
        self._own_url = own_url
        self._client = client
        self._delete_folder = delete_folder

    def register(self, portals: Portals, users: Sequence[str]) -> None:
        """Register this server, with the portals that it has in its data directory."""
        if self._own_url is None:
            return
        self.directory.register(self.own_id, self._own_url)
        for user in users:
            if portals.has_any(user) and self.directory.server_of(user) is None:
                self.directory.assign(user, self.own_id)

    def delete_removed_users(self) -> None:
        """Delete the files here of users that were removed on any server."""
        for user in self.directory.removed_users(self.own_id):
            self._delete_folder(user)
            self.directory.delete_user(user)

    def server_of(self, user: str) -> "PortalServer | None":
        """The other server that has a user's portals. None: they are here, or nowhere yet."""
        found = self.directory.server_of(user)
        return None if found is None or found.id == self.own_id else found

    def server_for_write(self, user: str) -> "PortalServer | None":
        """The same, for a call that may create a portal: a user without portals gets them on this server. Raises
        Unavailable if others cannot reach it."""
        found = self.directory.server_of(user)
        if found is None:
            self.directory.assign(user, self.own_id)
            found = self.directory.server_of(user)
        if found is None:
            raise Unavailable(
                "A user's first portal needs a server that the others can reach. Start one with this data directory, "
                "--transport http and --server-url."
            )
        return None if found.id == self.own_id else found

    def forward(self, server: "PortalServer", call: Call[Any], operation: str, arguments: dict[str, Any]) -> Any:
        """The answer of another server. Raises its AppError, or Unavailable if it cannot be reached."""
        answer = self._client.call(
            server,
            call.caller,
            operation,
            arguments,
            is_write=is_write(operation),
            progress=call.progress,
            cancelled=call.cancelled,
        )
        return answers_of(operation).validate_python(answer)

    def by_call(self, name: str) -> Callable[..., Any]:
        """An operation as the family declares it, run where the portals are."""
        operation = operations()[name]

        def run(call: Call[Portals], *rest: Any) -> Any:
            server = self.server_of(call.caller.user)
            if server is None:
                return operation.run(call, *rest)
            return self.forward(server, call, name, dict(zip(operation.arguments, rest, strict=True)))

        return run

    def by_caller(self, name: str) -> Callable[..., Any]:
        """The same for an operation that is declared for a caller, not for a call."""
        run_call = self.by_call(name)

        def run(portals: Portals, caller: Caller, *rest: Any) -> Any:
            return run_call(new_call(portals, caller), *rest)

        return run

    def summaries(self, portals: Portals, caller: Caller) -> list[PortalSummary]:
        """Of all portals of a caller."""
        found: list[PortalSummary] = self.by_caller("summaries")(portals, caller)
        return found

    def family(self) -> Family[Portals]:
        """The family, on servers of which each has the portals of some users."""
        return replace(
            family,
            tools={name: _forwarded_tool(self, tool) for name, tool in family.tools.items()},
            list_resources=self.by_call("list_resources"),
            read_resource=partial(_read_resource, self.by_call("read_resource")),
            complete=self.by_call("complete"),
            references=replace(references.REFERENCES, open=self.by_call("open")),
            counts=self.by_caller("counts"),
            last_writes=self.by_caller("last_writes"),
            sizes=self.by_caller("sizes"),
            prepare=partial(_prepare, self),
            housekeeping=partial(_housekeeping, self),
            groups=partial(_groups, self),
            journals=partial(_journals, self),
            maintenance=partial(_maintenance, self),
        )

    def check_has_portals(self, call: ReceivedCall) -> None:
        """Raises Unavailable if the caller's portals are on another server."""
        if self.server_of(call.caller.user) is not None:
            raise Unavailable("These portals have just been moved to another server. Try again.", retry_after=1)


def _prepare(forwarder: Forwarder, portals: Portals, users: Sequence[str]) -> None:
    prepare(portals, users)
    forwarder.register(portals, users)


def _housekeeping(forwarder: Forwarder, portals: Portals) -> None:
    delete_expired(portals)
    forwarder.delete_removed_users()


def _forwarded_tool(forwarder: Forwarder, tool: Tool) -> Tool:
    find_server = forwarder.server_for_write if tool.needs is Scope.WRITE else forwarder.server_of

    @wraps(tool.run)
    def run(call: Call[Portals], arguments: Arguments) -> Any:
        server = find_server(call.caller.user)
        if server is None:
            return tool.run(call, arguments)
        return forwarder.forward(server, call, f"{TOOL}{tool.name}", arguments.model_dump(mode="json", by_alias=True))

    return replace(tool, run=run)


def _read_resource(read: Callable[..., Document], call: Call[Portals], uri: str) -> Document:
    """The viewer is the same on all servers."""
    return resources.read(call, uri) if uri == VIEWER else read(call, uri)


def _groups(forwarder: Forwarder, portals: Portals, caller: Caller) -> Iterator[Group]:
    server = forwarder.server_of(caller.user)
    if server is None:
        yield from search_texts.groups(portals, caller)
        return
    call = new_call(portals, caller)
    for name, version in forwarder.forward(server, call, "groups", {}):
        texts = _RemoteTexts(partial(forwarder.forward, server, call, "texts", {"group": name}))
        yield Group(name, texts.versions, texts.texts, version)


class _RemoteTexts:
    """The texts of one portal on another server, fetched when their versions are wanted."""

    def __init__(self, fetch: Callable[[], list[IndexedText]]) -> None:
        self._fetch = fetch
        self._texts: dict[str, Text] = {}

    def versions(self) -> dict[str, str]:
        found = self._fetch()
        self._texts = {key: text for key, _, text in found}
        return {key: version for key, version, _ in found}

    def texts(self, keys: Sequence[str]) -> Iterator[Text | None]:
        return map(self._texts.get, keys)


def _journals(forwarder: Forwarder, portals: Portals, caller: Caller) -> Iterable[Journal]:
    """They are in PostgreSQL. Which portals there still are is known to the server that has them."""
    server = forwarder.server_of(caller.user)
    if server is None:
        return portals.journals(caller)
    forward = partial(forwarder.forward, server)
    sizes = partial(forward, new_call(portals, caller), "sizes", {})
    return portals.journal.journals(caller, _RemoteRows(portals, forward), _RemotePortals(sizes).exists)


class _RemoteRows:
    """The rows of tables on another server."""

    def __init__(self, portals: Portals, forward: Callable[[Call[Any], str, dict[str, Any]], Any]) -> None:
        self._portals = portals
        self._forward = forward

    def find(self, caller: Caller, uri: str, marks: Collection[int], undo_ids: Collection[str]) -> FoundRows:
        wanted = {"uri": uri, "marks": list(marks), "undo_ids": list(undo_ids)}
        found: FoundRows = self._forward(new_call(self._portals, caller), "find_rows", wanted)
        return found

    def undo(self, caller: Caller, uri: str, steps: Sequence[RowUndo]) -> dict[int, int]:
        wanted = {"uri": uri, "steps": [astuple(one) for one in steps]}
        done: dict[int, int] = self._forward(new_call(self._portals, caller), "undo_rows", wanted)
        return done


class _RemotePortals:
    """Which portals and tables another server has, fetched once."""

    def __init__(self, fetch_sizes: Callable[[], Any]) -> None:
        self._fetch_sizes = fetch_sizes
        self._known: dict[str, Any] | None = None

    def exists(self, address: Address) -> bool:
        if self._known is None:
            self._known = {size.ref: size for size in self._fetch_sizes()}
        size = self._known.get(address.portal_uri)
        return size is not None and (address.table is None or size.count is None or address.table in size.tables)


def _maintenance(forwarder: Forwarder) -> FamilyMaintenance[Portals]:
    def export(portals: Portals, target: ExportFolder) -> int:
        server = forwarder.server_of(target.caller.user)
        if server is None:
            return maintenance.MAINTENANCE.exports["portals"](portals, target)
        return forwarded_files.export(
            partial(_run_tool, forwarder, server, new_call(portals, target.caller)),
            forwarder.summaries(portals, target.caller),
            target,
        )

    def import_(portals: Portals, source: ImportFolder) -> None:
        server = (
            forwarder.server_of(source.caller.user)
            if source.dry_run
            else forwarder.server_for_write(source.caller.user)
        )
        if server is None:
            maintenance.MAINTENANCE.imports["portals"](portals, source)
            return
        known = {portal.uri for portal in forwarder.summaries(portals, source.caller)}
        forwarded_files.import_(partial(_run_tool, forwarder, server, new_call(portals, source.caller)), known, source)

    undo = ExportUndo[Portals](
        forwarder.by_caller("versions"), maintenance.is_in_export, partial(_delete_portal, forwarder)
    )
    return replace(maintenance.MAINTENANCE, exports={"portals": export}, imports={"portals": import_}, import_undo=undo)


def _delete_portal(forwarder: Forwarder, portals: Portals, caller: Caller, uri: str) -> Any:
    server = forwarder.server_of(caller.user)
    if server is None:
        return portals.delete(caller, uri, None, None, confirm=True)
    return _run_tool(forwarder, server, new_call(portals, caller), "portal_delete", {"portalUri": uri, "confirm": True})


def _run_tool(
    forwarder: Forwarder, server: "PortalServer", call: Call[Any], name: str, arguments: dict[str, Any]
) -> Any:
    return forwarder.forward(server, call, f"{TOOL}{name}", arguments)
