"""The settings: one frozen object, passed down from the start. To add one, add a field here."""

from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

import platformdirs
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from memory_mcp.settings.types import EmbedderKind, Folder, Names, PostgresUrl
from memory_mcp.text.time_spans import zone_name


def default_data_dir(program: str) -> Path:
    return platformdirs.user_data_path(program, appauthor=False)


class Settings(BaseModel):
    """All settings. The descriptions are product text: --help and docs/settings.md show them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    transport: Literal["stdio", "http"] = Field("stdio", description="How clients connect.")
    host: str = Field("127.0.0.1", description="Address the HTTP server binds to.")
    port: int = Field(8765, ge=0, le=65535, description="Port of the HTTP server; 0 takes a free one.")
    data_dir: Folder = Field(
        default_factory=lambda: default_data_dir("memory-mcp"),
        description="Folder that holds everything. The default is the platform's user data folder.",
    )
    db_path: Folder | None = Field(
        None, description="The vault's SQLite file. The default is memory.db in the data directory."
    )
    families: Names = Field((), description="Families to switch on, comma-separated. The default is all.")
    scopes: Names = Field(
        ("read-write",),
        description="What a client without a key may do (stdio, or HTTP with --auth none): read_memory, write_memory, "
        "delete_memory, manage_links; or read-only, read-write.",
    )
    auth: Literal["key", "none"] = Field(
        "key", description="Whether HTTP requires a key. none is for tests and works on loopback only."
    )
    allowed_hosts: Names = Field(
        (), description="Host names clients may use beside loopback and the bound address, comma-separated."
    )
    public_url: str | None = Field(
        None,
        pattern=r"^https?://[^/?#\s]+$",
        description="The URL of the HTTP server as other computers reach it, such as https://memory.example.com behind "
        "a proxy. Links and snippets show it, and clients may use its host name.",
    )
    forwarded_allow_ips: Names = Field(
        (),
        description="Addresses of reverse proxies whose X-Forwarded-For and X-Forwarded-Proto are trusted, "
        "comma-separated. The default is none.",
    )
    rate_limits: bool = Field(
        False,
        description="Whether users' plans limit how many requests a minute their keys may make: community 30, pro 120, "
        "business 600, enterprise any number.",
    )
    session_id: str | None = Field(
        None, min_length=1, max_length=128, description="The stdio client's session id. The default is a random one."
    )
    shared: Literal["auto", "off"] = Field(
        "auto", description="auto: stdio clients of a data directory share one server. off: each has its own process."
    )
    shared_idle: int = Field(
        300, ge=0, le=86_400, description="Seconds after its last client has left until the shared server ends."
    )
    timezone: Annotated[str, AfterValidator(zone_name)] | None = Field(
        None, description="Zone of times without one, in searches, such as Europe/Berlin. The default is the system's."
    )
    session_persist: bool = Field(
        False, description="Keep a session's memories when its connection closes. For debugging."
    )
    session_persist_days: int = Field(
        30,
        ge=1,
        le=36500,
        description="Days after which session_persist's memories of sessions that no client named are deleted. Named "
        "sessions keep theirs.",
    )
    session_idle: int = Field(1800, ge=1, description="Seconds without a call after which an HTTP session ends.")
    max_sessions: int = Field(
        1000,
        ge=1,
        description="How many HTTP sessions with a handshake may be open at once. Beyond that, the user with the most "
        "sessions loses the one that has been idle longest.",
    )
    max_user_sessions: int = Field(
        200,
        ge=1,
        description="How many HTTP sessions with a handshake one user may have open. Beyond that, the one that has "
        "been idle longest ends.",
    )
    user_handshakes: int = Field(
        10,
        ge=1,
        le=10_000,
        description="How many HTTP sessions a second one user may open. The first 40 are opened at once; beyond that, "
        "a handshake waits.",
    )
    max_user_streams: int = Field(
        200,
        ge=1,
        description="How many streams of `subscriptions/listen` one user may have open. Beyond that, the oldest ends.",
    )
    header_seconds: int = Field(
        10, ge=1, le=600, description="How long an HTTP client may take to send the header of a request."
    )
    body_seconds: int = Field(
        30,
        ge=1,
        le=3600,
        description="How long an HTTP client may take to send the body of a request. A long body gets one second more "
        "for every 8 KiB.",
    )
    send_seconds: int = Field(
        60,
        ge=1,
        le=3600,
        description="How long an HTTP client may leave an answer unread. Then the connection is closed.",
    )
    drain_seconds: int = Field(
        0,
        ge=0,
        le=600,
        description="How long an HTTP server still answers after SIGTERM, while /readyz says 503, so that a load "
        "balancer sends no more requests. A second signal ends it at once.",
    )
    address_connections: int = Field(
        256,
        ge=1,
        description="How many HTTP connections one address may have open without a valid key or sign-in; the addresses "
        "of an IPv6 /64 count as one. Addresses in forwarded_allow_ips have no limit here: the proxy has to set one. "
        "Beyond that, the server closes the connection that has gone longest without a whole request, or one that has "
        "not read its answer; if there is none, it refuses the new one.",
    )
    user_connections: int = Field(
        1000,
        ge=1,
        description="How many HTTP connections one user may have open, with keys and sign-ins together. Beyond that, "
        "the server closes the one that has been idle longest, or refuses the new one if all have a request under way.",
    )
    refused_connections: int = Field(
        64,
        ge=0,
        le=10_000,
        description="How many connections that are one too many stay open for up to five seconds, until their clients "
        "have read why. Beyond that, refused connections are closed at once, which some clients see as a reset.",
    )
    user_request_bytes: int = Field(
        64 * 1024 * 1024,
        ge=32 * 1024 * 1024,
        description="How many bytes of requests under way one user may have in the memory of a server or a hub, and "
        "how many bytes of answers that are not read yet. Further requests are refused as unavailable.",
    )
    read_threads: int = Field(
        32,
        ge=2,
        le=1024,
        description="Threads for calls that only read. Over HTTP, one user occupies at most half of them at once, and "
        "at most a quarter in one family; further calls wait.",
    )
    write_threads: int = Field(
        8, ge=2, le=256, description="Threads for calls that write. Users share them as they share read_threads."
    )
    queue_seconds: int = Field(
        30,
        ge=1,
        le=600,
        description="How long a call waits for a free thread. Then it is refused as unavailable, and the answer says "
        "after how many seconds to try again.",
    )
    embedding_dim: int = Field(
        1536, ge=1, le=65536, description="Length of the vectors the vault takes (D in its spec)."
    )
    embedder: EmbedderKind = Field(
        "auto",
        description="What computes the vectors for search by meaning. auto: the embedder of the existing vectors, else "
        "Ollama if it answers, else the built-in model if `memory-mcp models pull` has installed it.",
    )
    embed_model: str | None = Field(
        None,
        description="The model to request from Ollama or the service. The default is nomic-embed-text for Ollama, "
        "text-embedding-3-small for the service; the built-in embedder has its own.",
    )
    ollama_host: str = Field("127.0.0.1:11434", description="Where Ollama listens.")
    openai_base_url: str = Field(
        "https://api.openai.com/v1", description="Where a service that speaks OpenAI's protocol listens."
    )
    openai_api_key: str | None = Field(
        None, description="The key for that service, if any. Not a flag: any user of the machine could read it."
    )
    models_dir: Folder | None = Field(
        None,
        description="The folder that holds the built-in model's two files, model.onnx and tokenizer.json. The default "
        "is in the platform's user cache folder.",
    )
    portal_names: Literal["plain", "spec"] = Field(
        "plain",
        description="How tools/list names the tools of portals: portal_write, or memory/write as their specification "
        "does. A call works under either name.",
    )
    portal_seconds: int = Field(10, ge=1, le=3600, description="How long a portal_query may take.")
    portal_rows: int = Field(10_000, ge=1, le=1_000_000, description="How many rows a portal_query may return.")
    portal_tokens: int = Field(8_000, ge=500, le=20_000, description="How many tokens an answer with rows may have.")
    portal_memory: int = Field(10**9, ge=10**7, description="How many bytes of memory a portal_query may use.")
    portal_user_memory: int = Field(
        4 * 10**9,
        ge=10**7,
        description="How many bytes of memory the queries, exports and imports of one user may use together: a server "
        "runs as many at once as fit with portal_memory each (import_memory for an import), at least one. Further ones "
        "wait.",
    )
    portal_queries: int = Field(
        4, ge=1, le=100, description="How many queries of one portal a server runs at once. Further ones wait."
    )
    portal_queue_seconds: int = Field(
        60,
        ge=1,
        le=3600,
        description="How long a portal_query waits for other queries of its portal, and for the memory that its user's "
        "imports, exports and queries use. Then it is refused as unavailable.",
    )
    portal_threads: int = Field(4, ge=1, le=256, description="How many processor cores a portal_query may use at once.")
    portal_engines: int = Field(
        8,
        ge=1,
        le=1000,
        description="How many engine processes the portals of one user may have at once. For one more portal, the "
        "engine that has been idle longest ends.",
    )
    portal_engine_idle: float = Field(
        60.0, gt=0, le=86400, description="Seconds after its last request until the engine process of a portal ends."
    )
    portal_sandbox: Literal["auto", "required"] = Field(
        "auto",
        description="What to do if the operating system lacks Landlock or seccomp, which confine engines: 'auto' runs "
        "engines anyway and logs what is missing, 'required' refuses to run them.",
    )
    import_dirs: Names = Field(
        (), description="Folders portal_import may read beside imports/ in the data directory, comma-separated."
    )
    export_dirs: Names = Field(
        (), description="Folders portal_export may write beside exports/ in the data directory, comma-separated."
    )
    portal_urls: bool = Field(False, description="Whether portal_import may fetch files from the web.")
    portal_joins: bool = Field(
        False, description="Whether a portal_query may read other portals of its namespace too, as `portal`.table."
    )
    import_bytes: int = Field(
        2_000_000_000,
        ge=1,
        description="How large a file portal_import and an import in the browser take, and how much a zip of a folder "
        "unpacks to in the browser.",
    )
    import_rows: int = Field(100_000_000, ge=1, description="How many records a file may have for portal_import.")
    import_expanded_bytes: int = Field(
        20_000_000_000,
        ge=1,
        description="How many bytes the records of an imported file may take up unpacked. They may also take up at "
        "most import_expansion times the size of the file.",
    )
    import_expansion: int = Field(
        100,
        ge=1,
        le=1_000_000,
        description="How many times the size of an imported file its records may take up unpacked, for portal_import. "
        "A small file may always hold 1 GB.",
    )
    import_memory: int = Field(
        4_000_000_000,
        ge=100_000_000,
        description="How many bytes of memory the engine may use for an import: at most as many as leave one query of "
        "the same user its portal_memory within portal_user_memory.",
    )
    import_seconds: int = Field(
        600,
        ge=1,
        le=86_400,
        description="How long a portal_import, or reading a file for an import in the browser, may take.",
    )
    export_bytes: int = Field(
        2_000_000_000, ge=1, description="How many bytes portal_export writes: of records, or of a db file."
    )
    export_seconds: int = Field(
        180,
        ge=1,
        le=86_400,
        description="How long the query of a portal_export may take, written at export_rate: by default enough for two "
        "of 2 GB at once.",
    )
    export_rate: int = Field(
        25_000_000,
        ge=1_000_000,
        description="How many bytes a second the exports of one portal write together, db files included, after the "
        "first 64 MB. Other users' writes wait for the same disk.",
    )
    export_quota: int = Field(
        4_000_000_000, ge=1_000_000, description="How many bytes the files in a user's exports/ may take up together."
    )
    export_days: int = Field(
        7,
        ge=1,
        le=36_500,
        description="How many days a file stays in exports/ of a further user. The local user's files stay.",
    )
    user_transfers: int = Field(
        4,
        ge=1,
        le=1000,
        description="How many portal_import, and how many portal_export, of one user a server runs at once, those that "
        "wait included. It refuses further ones.",
    )
    server_transfers: int = Field(
        8, ge=1, le=1000, description="The same for all users together. Each occupies a thread, and the disk."
    )
    browser_transfers: int = Field(
        3,
        ge=1,
        le=100,
        description="How many imports in the browser, and how many downloads of a user's data, a server runs at once, "
        "one of each user. It refuses further ones. A download needs as much disk space as the data.",
    )
    hooks: bool = Field(
        True, description="Whether `memory-mcp hook` does anything. `connect CLIENT --auto` makes a client call it."
    )
    hooks_without: Names = Field(
        (), description="Clients and projects for which hooks do nothing, comma-separated, such as codex, my-project."
    )
    hook_capture: bool = Field(
        True, description="Whether hooks keep what the user and the assistant said, as notes of source hook."
    )
    hook_days: int = Field(90, ge=1, le=36_500, description="How many days those notes are kept.")
    hook_start_tokens: int = Field(
        1500, ge=0, le=10_000, description="How many tokens a conversation gets at its start. 0: none."
    )
    hook_prompt_tokens: int = Field(300, ge=0, le=10_000, description="How many tokens a prompt gets. 0: none.")
    hook_prompt_memories: int = Field(3, ge=1, le=50, description="How many memories a prompt gets at most.")
    sync_seconds: int = Field(
        10, ge=1, le=86_400, description="Seconds between two requests to the hub. Local writes are sent at once."
    )
    durability: Literal["full", "normal"] = Field(
        "full",
        description="full: an acknowledged write survives a power cut. normal: it survives a crash of the server, "
        "and writes are faster.",
    )
    database_url: PostgresUrl | None = Field(
        None,
        description="Experimental: postgresql://user@host/database keeps vault, notes, graph, users and sessions in "
        "PostgreSQL with pgvector, not in files. Stores need shared_folder then, and portals need portals_url or "
        "server_url (docs/postgres.md).",
    )
    direct_database_url: PostgresUrl | None = Field(
        None, description="With --database-url through a pooler: the same database without it (docs/postgres.md)."
    )
    shared_folder: Folder | None = Field(
        None, description="With --database-url: the folder of stores, on a volume all servers mount (docs/postgres.md)."
    )
    portals_url: str | None = Field(
        None,
        pattern=r"^https?://",
        description="Experimental: http(s)://user:password@host:port/prefix keeps portals on a ClickHouse server, a "
        "database for each, not in files (docs/portals.md).",
    )
    server_url: str | None = Field(
        None,
        pattern=r"^https?://[^/?#@\s]+/?$",
        description="With --database-url: where the other servers reach this one, such as http://server-1:8765. Each "
        "user's portals are then on one of these servers. Without it, portals need portals_url (docs/postgres.md).",
    )
    new_users_cell: str = Field(
        "home", description="With --database-url: the cell of `memory-mcp cells` in which new users begin."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="How much goes to the log on stderr."
    )

    @property
    def url_host(self) -> str:
        """The host as a URL on this machine names it."""
        if self.host in ("0.0.0.0", "::", "[::]"):  # noqa: S104  # every address of this machine: loopback is one
            return "127.0.0.1" if self.host == "0.0.0.0" else "[::1]"  # noqa: S104
        return f"[{self.host}]" if ":" in self.host and not self.host.startswith("[") else self.host

    @property
    def public_host(self) -> str | None:
        return urlsplit(self.public_url).hostname if self.public_url else None

    @property
    def stores_dir(self) -> Path:
        """The folder with stores.yaml and the stores: the data directory, or what several servers share."""
        return (self.shared_folder if self.database_url else None) or self.data_dir

    @property
    def vault_path(self) -> Path:
        return self.db_path or self.data_dir / "memory.db"
