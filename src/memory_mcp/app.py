"""The one place where the parts are put together."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from memory_mcp.access import Audit, Keys, Limits, SignIns, Tenants, Users, delete_folder, folder_of, server_db
from memory_mcp.access.usage import Analytics, Coverage
from memory_mcp.caller import ALL_SCOPES, LOCAL_USER, Caller
from memory_mcp.changes import Changes
from memory_mcp.clock import Clock, utc_now
from memory_mcp.embedding import Embedders, Options, model_files
from memory_mcp.engines.chdb import sandbox
from memory_mcp.engines.chdb.process import Rules
from memory_mcp.engines.files import data_dir_lock, data_directory
from memory_mcp.engines.sqlite import Database
from memory_mcp.engines.sqlite.connections import Durability
from memory_mcp.engines.sqlite.database import Missing
from memory_mcp.engines.sqlite.migrations import Schema
from memory_mcp.errors import Invalid, Unavailable
from memory_mcp.families.family import Family, Groups
from memory_mcp.families.graph import Graph
from memory_mcp.families.graph import schema as graph_schema
from memory_mcp.families.graph.tools import graph
from memory_mcp.families.notes import Notes
from memory_mcp.families.notes import schema as notes_schema
from memory_mcp.families.notes.tools import notes
from memory_mcp.families.portals.address import Address
from memory_mcp.families.portals.limits import ImportLimits
from memory_mcp.families.portals.operations import Portals
from memory_mcp.families.portals.search_texts import groups as portal_groups
from memory_mcp.families.portals.tools import portals
from memory_mcp.families.recall import Recall, finders
from memory_mcp.families.recall.index import Index
from memory_mcp.families.recall.tools import recall
from memory_mcp.families.stores import Stores
from memory_mcp.families.stores import schema as stores_schema
from memory_mcp.families.stores.tools import stores
from memory_mcp.families.vault import Vault
from memory_mcp.families.vault import schema as vault_schema
from memory_mcp.families.vault.tools import vault
from memory_mcp.importers import Importers
from memory_mcp.peers import Peers
from memory_mcp.sessions import Clients, Servers, Sessions, addresses, live_db
from memory_mcp.settings import Settings, default_data_dir
from memory_mcp.sync import LINK_FILE, Sync
from memory_mcp.sync import SyncWorker as SyncWorker
from memory_mcp.sync import hub as hubs

if TYPE_CHECKING:
    from memory_mcp.maintenance import Backup, Doctor, Kinds, MigrationRun, Restore

log = logging.getLogger(__name__)


class _Closes(Protocol):
    def close(self) -> object: ...


C = TypeVar("C", bound=_Closes)

FAMILIES = {family.name: family for family in (vault, notes, stores, graph, portals, recall)}
CONFINABLE = tuple(name for name, family in FAMILIES.items() if family.is_confinable)
"""The families that a key confined to a namespace can open."""


@dataclass(frozen=True)
class Access:
    """Who may come in, without anything they could come for."""

    users: Users
    keys: Keys
    sign_ins: SignIns
    limits: Limits
    audit: Audit
    folder_of: Callable[[str], Path]
    forget: Callable[[str], None]  # all that a further user keeps here, for good
    addresses: Callable[[], list[str]]  # where living servers are reached over HTTP


@dataclass(frozen=True)
class _Families:
    vault: Vault
    notes: Notes
    stores: Stores
    graph: Graph
    portals: Portals


@dataclass(frozen=True)
class App(_Families):
    """What every door opens onto."""

    settings: Settings
    families: dict[str, Family]
    recall: Recall
    moving_in: Importers
    access: Access
    sessions: Sessions
    clients: Clients
    servers: Servers
    analytics: Analytics
    changes: Changes
    peers: Peers
    sync: Sync
    syncing: SyncWorker

    def start(self) -> None:
        """What a server does beside answering."""
        _clear_the_dead(self.sessions)
        if "notes" in self.families:
            self.notes.worker.start()
            self.changes.listen(self.syncing.follow)
            self.syncing.start()
        if "recall" in self.families:
            self.recall.worker.start()

    def stop(self) -> None:
        """The last things, however the process ends: work given back, sessions ended, changes told, indexes tidied."""
        for last_thing in (
            self.syncing.stop,
            self.notes.worker.stop,
            self.recall.worker.stop,
            self.recall.stop,
            self.sessions.close_all,
            self.clients.close,
            self.servers.close,
            self.analytics.write_down,
            self.changes.close,
            self.peers.close,
            self.vault.tidying.now,
            self.notes.tidying.now,
            self.graph.tidying.now,
        ):
            try:
                last_thing()
            except Unavailable as exc:
                log.warning("Left undone at the end: %s", exc.message)


@dataclass(frozen=True)
class Maintenance:
    """What people do with all of a data directory."""

    backup: Backup
    restore: Restore
    doctor: Doctor
    migrating: MigrationRun


@contextmanager
def open_app(
    settings: Settings, *, clock: Clock = utc_now, serving: bool = True, new_files_dir: Path | None = None
) -> Iterator[App]:
    """Open everything a server needs, and close it. Raises AppError saying what to mend.

    The command line opens it without `serving`: then it does what it is asked to, and nothing in the background.
    Databases that are missing are created in `new_files_dir`, if it is given, and not in the data directory.
    """
    families = chosen_families(settings)
    with ExitStack() as closing:
        closing.enter_context(_present(settings.data_dir))
        data_directory.prepare(settings.data_dir)
        held = partial(_held, closing)
        files = partial(_files, settings, clock, new_files_dir)
        server, live = held(_server_file(settings, clock)), held(_live_file(settings, clock))
        changes, peers = Changes(), Peers(settings.data_dir / "servers")
        changes.listen(peers.tell)
        servers = Servers(settings.data_dir / "servers")
        sessions = Sessions(
            server,
            servers,
            persist=settings.session_persist,
            persist_days=settings.session_persist_days,
            idle_seconds=settings.session_idle,
        )
        embedders = Embedders(embedding_options(settings))
        vaults = held(
            Tenants(settings.data_dir, settings.vault_path, partial(_vault_file, settings, clock, new_files_dir))
        )
        notes_files = held(files("notes.db", notes_schema.SCHEMA))
        copies = Notes(held(files("recall.db", notes_schema.SCHEMA, durability="normal")), held(Changes()), embedders)
        rooms = _Families(
            vault=Vault(vaults, sessions, changes, dimensions=settings.embedding_dim),
            notes=Notes(notes_files, changes, embedders),
            stores=Stores(
                held(files("stores.db", stores_schema.SCHEMA, durability="normal")),
                clock,
                durable=settings.durability == "full",
                data_dirs=[default_data_dir(program) for program in ("memory-mcp", "memory-mcp-hub")],
            ),
            graph=held(
                Graph(
                    held(files("_meta.db", graph_schema.REGISTRY)),
                    partial(_project_file, settings, clock),
                    sessions,
                    changes,
                )
            ),
            portals=held(_portals(settings, vaults.folder, changes, clock)),
        )
        sync = Sync(notes_files.folder, rooms.notes.replica, tell=partial(changes.tell_pages, topic="sync"))
        app = App(
            settings=settings,
            families=families,
            **vars(rooms),
            recall=_recall(families, rooms, copies),
            moving_in=Importers(rooms.notes, rooms.stores, rooms.graph, settings.data_dir),
            access=_access(settings, server, live, clock, partial(changes.tell_pages, topic="keys")),
            sessions=sessions,
            clients=Clients(
                live,
                servers,
                end_sessions=sessions.close,
                ask_others_to_look=peers.ask_to_look,
                tell=partial(changes.tell_pages, topic="clients"),
                clock=clock,
            ),
            servers=servers,
            analytics=Analytics(server, partial(_coverage, notes_files, rooms.notes), clock),
            changes=changes,
            peers=peers,
            sync=sync,
            syncing=SyncWorker(sync, partial(_linked, settings.data_dir), settings.sync_seconds),
        )
        closing.callback(app.stop)
        if serving:
            _open_local_files(app)
            if "portals" in families:
                _log_missing_sandbox()
                app.portals.remove_leftovers([LOCAL_USER, *_further_users(settings.data_dir)])
            app.start()
        yield app


def _further_users(data_dir: Path) -> list[str]:
    """Users beside the local one: those who have a folder."""
    return [folder.name for folder in (data_dir / "users").glob("[!.]*")]


def _open_local_files(app: App) -> None:
    """Open the local user's files before the first call. A family whose file is refused answers `unavailable`, and the
    others serve."""
    openers = {"vault": app.vault.open_local, "notes": app.notes.open_local, "graph": app.graph.open_local}
    for family, open_local in openers.items():
        if family in app.families:
            try:
                open_local()
            except Unavailable as exc:
                log.error("The family %s is unavailable. %s `memory-mcp doctor` says more.", family, exc.message)  # noqa: TRY400  # no bug


def _held(closing: ExitStack, thing: C) -> C:
    """Something that is closed at the end."""
    closing.callback(thing.close)
    return thing


def _recall(families: Iterable[str], rooms: _Families, copies: Notes) -> Recall:
    """Over those families that are switched on, in their order."""
    index = Index(copies)
    find = {
        "vault": finders.vault(rooms.vault, index),
        "notes": finders.notes(rooms.notes),
        **{family: finders.copies(index, family) for family in ("stores", "graph", "portals")},
    }
    groups: dict[str, Groups] = {
        "vault": rooms.vault.groups,
        "stores": rooms.stores.groups,
        "graph": rooms.graph.groups,
        "portals": partial(portal_groups, rooms.portals),
    }
    rooms.portals.on_delete.append(partial(_purge_copies, index, groups["portals"]))
    follow = {family: partial(index.follow, family=family, groups=own) for family, own in groups.items()}
    return Recall(
        find={family: finder for family, finder in find.items() if family in families},
        follow={family: follower for family, follower in follow.items() if family in families},
        worker=copies.worker,
        stop=index.stop,
    )


def _purge_copies(index: Index, groups: Groups, caller: Caller, address: Address) -> None:
    """Remove what was deleted from a portal from the index of recall."""
    index.purge(caller.unconfined(), f"{address.namespace}/{address.portal}", family="portals", groups=groups)


@contextmanager
def open_access(settings: Settings) -> Iterator[Access]:
    """Users and keys alone: a damaged vault must not keep anyone from revoking one."""
    with ExitStack() as closing:
        closing.enter_context(_present(settings.data_dir))
        data_directory.prepare(settings.data_dir)
        server = _held(closing, _server_file(settings, utc_now))
        live = _held(closing, _live_file(settings, utc_now))
        yield _access(settings, server, live, utc_now)


@dataclass(frozen=True)
class HubApp:
    """What a hub is made of."""

    settings: Settings
    access: Access
    hub: hubs.Hub


@contextmanager
def open_hub(settings: Settings, *, clock: Clock = utc_now) -> Iterator[HubApp]:
    """A hub's users, keys and records. Raises AppError saying what to mend."""
    with ExitStack() as closing:
        closing.enter_context(_present(settings.data_dir))
        data_directory.prepare(settings.data_dir)
        server = _held(closing, _server_file(settings, clock))
        live = _held(closing, _live_file(settings, clock))
        records = _held(closing, _open_file(settings, clock, settings.data_dir / "hub.db", hubs.SCHEMA))
        access = _access(settings, server, live, clock)
        yield HubApp(settings, access, hubs.Hub(records, access.limits))


@contextmanager
def open_upkeep(
    settings: Settings, *, alone: bool = False, former_vault: Path | None = None, clock: Clock = utc_now
) -> Iterator[Maintenance]:
    """What looks after the files themselves. It opens none of them, so that damaged ones are no obstacle.

    `alone` is for restoring, which sees to it itself that nobody else is there; `former_vault` is where the vault's
    file is that it replaces, if not where the settings say.
    """
    from memory_mcp import maintenance  # a server at its start has no use for it

    layout, kinds = maintenance.Layout(settings.data_dir, settings.vault_path), _kinds()
    with ExitStack() as closing:
        if not alone:
            closing.enter_context(_present(settings.data_dir))
        tables = _held(closing, _portals(settings, partial(folder_of, settings.data_dir), Changes(), clock))
        yield Maintenance(
            backup=maintenance.Backup(layout, kinds, tables, clock),
            restore=maintenance.Restore(layout, kinds, tables, clock, former_vault),
            doctor=maintenance.Doctor(
                layout,
                kinds,
                tables,
                caches={
                    "stores.db": stores_schema.SCHEMA,
                    "recall.db": notes_schema.SCHEMA,
                    "live.db": live_db.SCHEMA,
                },
                open_file=partial(_open_file, settings, clock),
                embedding=embedding_options(settings),
            ),
            migrating=maintenance.MigrationRun(layout, kinds, partial(_open_file, settings, clock)),
        )


def backup_of(app: App, clock: Clock = utc_now) -> Backup:
    """What makes backups of everything, in a server that runs."""
    from memory_mcp import maintenance

    layout = maintenance.Layout(app.settings.data_dir, app.settings.vault_path)
    return maintenance.Backup(layout, _kinds(), app.portals, clock)


def _kinds() -> Kinds:
    from memory_mcp import maintenance

    return maintenance.Kinds(
        schemas={
            "server": server_db.SCHEMA,
            "hub": hubs.SCHEMA,
            "registry": graph_schema.REGISTRY,
            "vault": vault_schema.SCHEMA,
            "notes": notes_schema.SCHEMA,
            "project": graph_schema.PROJECT,
        },
        is_indexed={
            "vault": vault_schema.is_indexed,
            "notes": notes_schema.is_indexed,
            "project": graph_schema.is_indexed,
        },
        index_anew={
            "vault": vault_schema.index_anew,
            "notes": notes_schema.index_anew,
            "project": graph_schema.index_anew,
        },
    )


@contextmanager
def _present(data_dir: Path) -> Iterator[None]:
    """Use the data directory, after a restore that was killed has been finished."""
    while True:
        with data_dir_lock.shared(data_dir):
            if not (data_dir / data_dir_lock.RESTORING).exists():
                yield
                return
        from memory_mcp.maintenance import finish_restore

        with data_dir_lock.exclusive(data_dir, data_dir_lock.LOCK_TIMEOUT_S):
            finish_restore(data_dir)


def _access(
    settings: Settings,
    server: Database,
    live: Database,
    clock: Clock,
    tell_keys: Callable[[str], None] = lambda user: None,
) -> Access:
    audit, limits = Audit(server), Limits(live)
    return Access(
        users=Users(server, audit),
        keys=Keys(server, audit, clock, tell_keys),
        sign_ins=SignIns(server, limits, audit, clock),
        limits=limits,
        audit=audit,
        folder_of=partial(folder_of, settings.data_dir),
        forget=partial(_forget, settings, clock),
        addresses=partial(addresses, live, Servers(settings.data_dir / "servers")),
    )


def _forget(settings: Settings, clock: Clock, user: str) -> None:
    path = settings.data_dir / "hub.db"
    if path.exists():
        with closing(_open_file(settings, clock, path, hubs.SCHEMA)) as records:
            hubs.forget(records, user)
    delete_folder(settings.data_dir, user)


def _server_file(settings: Settings, clock: Clock) -> Database:
    return _open_file(settings, clock, settings.data_dir / "server.db", server_db.SCHEMA)


def _live_file(settings: Settings, clock: Clock) -> Database:
    return _open_file(settings, clock, settings.data_dir / "live.db", live_db.SCHEMA, durability="normal")


def _files(
    settings: Settings,
    clock: Clock,
    new_files_dir: Path | None,
    name: str,
    schema: Schema,
    durability: Durability | None = None,
) -> Tenants:
    """A file of this name and kind for each user."""

    def opening(path: Path) -> Database:
        return _open_file(settings, clock, _existing_or_new(path, new_files_dir), schema, durability=durability)

    return Tenants(settings.data_dir, settings.data_dir / name, opening)


def _project_file(settings: Settings, clock: Clock, path: Path, lock: Path, make: bool) -> Database:
    missing: Missing = "make once" if make else "refuse"
    db = _open_file(settings, clock, path, graph_schema.PROJECT, missing=missing, lock=lock)
    db.whenever_opened(graph_schema.index_when_opened)
    return db


def _existing_or_new(path: Path, new_files_dir: Path | None) -> Path:
    """Where a database is, or is to be created."""
    return path if new_files_dir is None or path.exists() else new_files_dir / path.name


def _vault_file(settings: Settings, clock: Clock, new_files_dir: Path | None, path: Path) -> Database:
    db = _open_file(settings, clock, _existing_or_new(path, new_files_dir), vault_schema.SCHEMA)
    db.whenever_opened(vault_schema.index_when_opened)
    return db


def _log_missing_sandbox() -> None:
    if lacks := sandbox.missing():
        log.warning(
            "This system lacks %s. The engines of portals are confined by their SQL policy and role alone; "
            "portal_sandbox = required refuses to run them so.",
            " and ".join(lacks),
        )


def _portals(settings: Settings, folder_of: Callable[[str], Path], changes: Changes, clock: Clock) -> Portals:
    limits = {
        "max_execution_time": settings.portal_seconds,
        "limit": settings.portal_rows + 1,  # one more tells that there is more
        "max_memory_usage": settings.portal_memory,
        "max_threads": min(settings.portal_threads, os.cpu_count() or 1),
    }
    return Portals(
        folder_of,
        changes,
        clock,
        limits=limits,
        rules=Rules(sandbox=settings.portal_sandbox, max_engines=settings.portal_engines),
        import_folders=[Path(name).expanduser() for name in settings.import_dirs],
        export_folders=[Path(name).expanduser() for name in settings.export_dirs],
        import_limits=ImportLimits(
            file_bytes=settings.import_bytes,
            rows=settings.import_rows,
            expanded_bytes=settings.import_expanded_bytes,
            memory_bytes=settings.import_memory,
            seconds=settings.import_seconds,
        ),
        largest_export=settings.export_bytes,
        export_quota=settings.export_quota,
        export_days=settings.export_days,
        urls=settings.portal_urls,
        joins=settings.portal_joins,
    )


def embedding_options(settings: Settings) -> Options:
    return Options(
        kind=settings.embedder,
        model=settings.embed_model,
        ollama_host=settings.ollama_host,
        openai_base_url=settings.openai_base_url,
        openai_api_key=settings.openai_api_key,
        model_folder=settings.models_dir or model_files.default_folder(),
    )


def _open_file(
    settings: Settings,
    clock: Clock,
    path: Path,
    schema: Schema,
    *,
    durability: Durability | None = None,
    missing: Missing = "make",
    lock: Path | None = None,
) -> Database:
    return Database(
        path,
        schema,
        backups=settings.data_dir / "backups",
        durability=durability or settings.durability,
        clock=clock,
        missing=missing,
        lock=lock,
    )


def _linked(data_dir: Path) -> list[str]:
    """The users who sync."""
    others = sorted(path.parent.name for path in data_dir.glob(f"users/*/{LINK_FILE}"))
    return [*([LOCAL_USER] if (data_dir / LINK_FILE).exists() else []), *others]


def _coverage(files: Tenants, notes: Notes, user: str) -> Coverage | None:
    if not files.exists(user):
        return None
    try:
        totals = notes.totals(Caller(user, ALL_SCOPES, frozenset({"notes"})))
    except Unavailable:
        return None
    return Coverage(totals.kept, totals.embedded)


def _clear_the_dead(sessions: Sessions) -> None:
    try:
        sessions.clear_the_dead()
        sessions.delete_expired()
    except Unavailable as exc:  # others are busy; one of them, or the next to start, will do it
        log.warning("What dead servers left behind stays for now: %s", exc.message)


def chosen_families(settings: Settings) -> dict[str, Family]:
    names = settings.families or tuple(FAMILIES)
    if unknown := [name for name in names if name not in FAMILIES]:
        raise Invalid(f"No family is called {unknown[0]!r}. Use any of: {', '.join(FAMILIES)}.", field="families")
    return {name: FAMILIES[name] for name in FAMILIES if name in names}


def confinable(names: Sequence[str]) -> Sequence[str]:
    """The families of a key that is confined to a namespace; without names all that can be. Raises Invalid for one that
    has no namespaces."""
    if unfit := [name for name in names if name not in CONFINABLE]:
        raise Invalid(
            f"{unfit[0]} has no namespaces, so a confined key cannot open it. Use any of: {', '.join(CONFINABLE)}.",
            field="families",
        )
    return names or CONFINABLE
