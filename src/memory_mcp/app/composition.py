"""A server's parts, put together."""

import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from memory_mcp.app.access import Access, ServerDatabases, create_access, open_server_databases
from memory_mcp.app.portal_servers import create_forwarder
from memory_mcp.app.postgres import check_settings, create_peers
from memory_mcp.caller import ALL_SCOPES, LOCAL_USER, Caller
from memory_mcp.changes import KEYS_TOPIC, Changes
from memory_mcp.clock import Clock, utc_now
from memory_mcp.conversations import Conversations
from memory_mcp.conversations.family import conversations
from memory_mcp.conversations.schema import FILE as CONVERSATIONS_FILE
from memory_mcp.engines.sqlite import Database
from memory_mcp.errors import Unavailable
from memory_mcp.families import registry
from memory_mcp.families.context import Context
from memory_mcp.families.family import Family, OpenFamily
from memory_mcp.families.graph import Graph
from memory_mcp.families.notes import Notes
from memory_mcp.families.portals.model import PortalSummary
from memory_mcp.families.portals.operations import Portals
from memory_mcp.families.recall import Recall
from memory_mcp.families.recall.latest import Latest, latest
from memory_mcp.families.stores import Stores
from memory_mcp.families.vault import Vault
from memory_mcp.families.write_review import WriteReview
from memory_mcp.importers import Importers
from memory_mcp.importers.own_exports import OwnExports
from memory_mcp.maintenance.imports import read_export
from memory_mcp.peers import Peers
from memory_mcp.services.access.usage import Analytics, Coverage
from memory_mcp.services.embedding import Embedders, EmbeddingOptions, model_files
from memory_mcp.services.sessions import Clients, ServerRegistry, SessionChoices, Sessions
from memory_mcp.services.sync import LINK_FILE, Sync, SyncWorker
from memory_mcp.services.sync.model import Replica
from memory_mcp.settings import Settings

if TYPE_CHECKING:
    from memory_mcp.engines.postgres.pool import PostgresPool
    from memory_mcp.families.portals.forwarder import Forwarder

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class App:
    """All the parts of a server or a command."""

    settings: Settings
    families: dict[str, Family[Any]]  # by name: those that are switched on
    opened: dict[str, OpenFamily[Any]]  # by name: all of them, and the conversations
    importers: Importers
    own_exports: OwnExports
    write_review: WriteReview
    access: Access
    sessions: Sessions
    clients: Clients
    servers: ServerRegistry
    analytics: Analytics
    changes: Changes
    peers: Peers
    sync: Sync
    sync_worker: SyncWorker
    databases: Collection[Database]  # the open ones
    postgres: "PostgresPool | None"  # connections to the database of --database-url
    forwarder: "Forwarder | None"  # to the servers that have the portals; None: those of all users are here

    @property
    def vault(self) -> Vault:
        return cast("Vault", self.opened["vault"].operations)

    @property
    def notes(self) -> Notes:
        return cast("Notes", self.opened["notes"].operations)

    @property
    def conversations(self) -> Conversations:
        return cast("Conversations", self.opened["conversations"].operations)

    @property
    def stores(self) -> Stores:
        return cast("Stores", self.opened["stores"].operations)

    @property
    def graph(self) -> Graph:
        return cast("Graph", self.opened["graph"].operations)

    @property
    def portals(self) -> Portals:
        """Those in this data directory, or on the ClickHouse server."""
        return cast("Portals", self.opened["portals"].operations)

    def portal_summaries(self, caller: Caller) -> list[PortalSummary]:
        """Of all portals of a caller, wherever they are."""
        if self.forwarder is None:
            return self.portals.summaries(caller)
        return self.forwarder.summaries(self.portals, caller)

    @property
    def recall(self) -> Recall:
        return cast("Recall", self.opened["recall"].operations)

    def latest(self, caller: Caller, limit: int, only: str | None = None) -> Latest:
        """The last writes of all families, or of one. Messages that hooks stored are listed as conversations."""
        conversations = self.conversations.reader.last_writes(caller, limit) if "notes" in caller.families else []
        return latest(self.opened, caller, limit, only, [("notes", one) for one in conversations])

    def start(self, prepared: Collection[str] | None = None) -> None:
        """Start the work in the background. The files of `prepared` families, or of all, are opened now."""
        self._prepare(self.families if prepared is None else prepared)
        _delete_stale_sessions(self.sessions)
        for name in self.families:
            one = self.opened[name]
            if one.family.start:
                one.family.start(one.operations)
        if "notes" in self.families:
            self.changes.listen(self.sync_worker.on_change)
            self.sync_worker.start()

    def housekeeping(self) -> Iterator[Callable[[], None]]:
        """The families' functions to call every minute."""
        for one in self.opened.values():
            if one.family.housekeeping:
                yield partial(one.family.housekeeping, one.operations)

    def release_unused(self) -> None:
        """Give back what the connections to unused files hold."""
        for database in list(self.databases):
            database.release_unused()

    def close_files(self) -> None:
        """Close the databases until they are next used. While no client is connected a person may copy or replace them,
        as if no server ran."""
        for database in list(self.databases):
            if database.is_open:
                database.close()

    def _prepare(self, names: Collection[str]) -> None:
        users = [LOCAL_USER, *_further_users(self.settings.data_dir)]
        for name in names:
            one = self.opened[name]
            try:
                if one.family.prepare:
                    one.family.prepare(one.operations, users)
            except Unavailable as exc:
                log.error("The family %s is unavailable. %s `memory-mcp doctor` says more.", name, exc.message)  # noqa: TRY400  # no bug

    def stop(self) -> None:
        """End the work in the background and the sessions, and publish the last changes, however the process ends."""
        families = [partial(one.family.stop, one.operations) for one in self.opened.values() if one.family.stop]
        steps: tuple[Callable[[], object], ...] = (
            self.sync_worker.stop,
            *families,
            self.sessions.close_all,
            self.clients.close,
            self.servers.close,
            self.analytics.flush,
            self.changes.close,
            self.peers.close,
        )
        for step in steps:
            try:
                step()
            except Unavailable as exc:
                log.warning("A step of the shutdown failed: %s", exc.message)


@contextmanager
def open_app(
    settings: Settings,
    *,
    clock: Clock = utc_now,
    serving: bool = True,
    prepared: Collection[str] | None = None,
    new_files_dir: Path | None = None,
    families: dict[str, Family[Any]] = registry.FAMILIES,
) -> Iterator[App]:
    """Open everything a server needs, and close it. Raises AppError that says what to correct.

    The command line opens it without `serving`: then nothing runs in the background. Missing databases are created in
    `new_files_dir`, if it is given, and not in the data directory. A server opens the files of `prepared` families (or
    of all) at its start, and those of others when they are first used.
    """
    served = registry.select(families, settings.families)
    with ExitStack() as stack:
        if settings.database_url:
            check_settings(settings, families, served)
        kinds = [CONVERSATIONS_FILE, *(kind for family in families.values() for kind in family.databases)]
        own = open_server_databases(settings, clock, stack, kinds)
        if forwarder := create_forwarder(settings, own, stack):
            families = {**families, "portals": forwarder.family()}
            served = registry.select(families, settings.families)
        changes = Changes()
        peers = create_peers(settings)
        changes.listen(peers.publish)
        context = Context(
            settings,
            clock,
            sessions=_create_sessions(settings, own),
            changes=changes,
            embedders=Embedders(embedding_options(settings)),
            closing=stack,
            served=frozenset(served),
            postgres=own.postgres,
            cells=own.cells,
            new_files_dir=new_files_dir,
        )
        context.databases.update(one for one in (own.server, own.live) if isinstance(one, Database))
        _open_families(context, {**families, conversations.name: conversations})
        app = _create_app(context, own, served, peers, forwarder)
        stack.callback(app.stop)
        if serving:
            app.start(prepared)
        yield app


def _open_families(context: Context, families: Mapping[str, Family[Any]]) -> None:
    """Each family opens itself and may use those opened before it."""
    for name, family in families.items():
        context.opened[name] = OpenFamily(family, family.open(context))


def _create_app(
    context: Context,
    own: ServerDatabases,
    served: dict[str, Family[Any]],
    peers: Peers,
    forwarder: "Forwarder | None",
) -> App:
    settings, changes, opened = context.settings, context.changes, context.opened
    notes: Notes = opened["notes"].operations
    replica_of = notes.transfer.replica if context.postgres is None else _refuse_sync
    sync = Sync(context.folder_of, replica_of, notify=partial(changes.publish_topic, topic="sync"))
    importers = Importers(notes, opened["stores"].operations, opened["graph"].operations, settings.data_dir)
    write_review = WriteReview(opened, changes.publish_topic)
    read = partial(read_export, opened)
    return App(
        settings=settings,
        families=served,
        opened=opened,
        importers=importers,
        own_exports=OwnExports(read, write_review.undo_session, opened, importers),
        write_review=write_review,
        access=create_access(settings, own, context.clock, partial(changes.publish_topic, topic=KEYS_TOPIC)),
        sessions=context.sessions,
        clients=_create_clients(context, own, peers),
        servers=own.servers,
        analytics=Analytics(own.server, partial(_coverage, notes), context.clock),
        changes=changes,
        peers=peers,
        sync=sync,
        sync_worker=SyncWorker(sync, partial(_linked_users, settings.data_dir), settings.sync_seconds),
        databases=context.databases,
        postgres=own.postgres,
        forwarder=forwarder,
    )


def _create_clients(context: Context, own: ServerDatabases, peers: Peers) -> Clients:
    return Clients(
        own.live,
        own.servers,
        end_sessions=context.sessions.close,
        request_disconnects=peers.request_disconnects,
        publish=partial(context.changes.publish_topic, topic="clients"),
        clock=context.clock,
    )


def _refuse_sync(user: str) -> Replica:
    raise Unavailable("Notes in PostgreSQL cannot be synced yet. Use a server without --database-url to sync.")


def _create_sessions(settings: Settings, own: ServerDatabases) -> Sessions:
    return Sessions(
        own.server,
        own.servers,
        persist=settings.session_persist,
        persist_days=settings.session_persist_days,
        idle_seconds=settings.session_idle,
        choices=SessionChoices(own.live) if own.postgres else None,
    )


def embedding_options(settings: Settings) -> EmbeddingOptions:
    return EmbeddingOptions(
        kind=settings.embedder,
        model=settings.embed_model,
        ollama_host=settings.ollama_host,
        openai_base_url=settings.openai_base_url,
        openai_api_key=settings.openai_api_key,
        model_folder=settings.models_dir or model_files.default_folder(),
    )


def _further_users(data_dir: Path) -> list[str]:
    """Users beside the local one: those who have a folder."""
    return [folder.name for folder in (data_dir / "users").glob("[!.]*")]


def _linked_users(data_dir: Path) -> list[str]:
    """The users who sync."""
    others = sorted(path.parent.name for path in data_dir.glob(f"users/*/{LINK_FILE}"))
    return [*([LOCAL_USER] if (data_dir / LINK_FILE).exists() else []), *others]


def _coverage(notes: Notes, user: str) -> Coverage | None:
    """How many of a user's notes have a vector; None if there is no file of notes, or it cannot be read now."""
    caller = Caller(user, ALL_SCOPES, frozenset({"notes"}))
    if not notes.reader.has_file(caller):
        return None
    try:
        totals = notes.reader.totals(caller)
    except Unavailable:
        return None
    return Coverage(totals.unarchived, totals.embedded)


def _delete_stale_sessions(sessions: Sessions) -> None:
    try:
        sessions.end_stale()
        sessions.delete_expired()
    except Unavailable as exc:  # other servers are busy; one of them, or the next to start, will do it
        log.warning("Could not clean up after stopped servers, will try again: %s", exc.message)
