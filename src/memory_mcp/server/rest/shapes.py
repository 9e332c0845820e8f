"""The bodies of REST requests and answers."""

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from memory_mcp.caller import Scope
from memory_mcp.families.notes.model import Source
from memory_mcp.families.portals.model import PortalSummary
from memory_mcp.families.registry import CONFINABLE, FAMILIES
from memory_mcp.server.arguments import MAX_FIELD_BYTES
from memory_mcp.services.access import AuditRecord, IssuedKey, Key, Plan
from memory_mcp.services.access.keys import LIFETIME, MAX_NAME_CHARS
from memory_mcp.services.sessions import Client, Transport
from memory_mcp.text.names import MAX_NAMESPACE_CHARS, NAMESPACE_PATTERN, READABLE_PATTERN

if TYPE_CHECKING:
    FamilyName = str
else:
    FamilyName = Literal[tuple(FAMILIES)]


MAX_REF_CHARS = 4000
BASE64 = r"^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"


class RequestBody(BaseModel):
    """Base of request bodies: unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", strict=True)


class KeyRequest(RequestBody):
    model_config = ConfigDict(
        json_schema_extra={
            "if": {"properties": {"confined": {"const": True}}, "required": ["confined"]},
            "then": {"properties": {"families": {"items": {"enum": list(CONFINABLE)}}}},
        }
    )

    name: str = Field(
        description="What the key is for, such as the client's name.",
        min_length=1,
        max_length=MAX_NAME_CHARS,
        pattern=READABLE_PATTERN,
    )
    namespace: str = Field(
        "default",
        description="For notes that name no namespace.",
        min_length=1,
        max_length=MAX_NAMESPACE_CHARS,
        pattern=NAMESPACE_PATTERN,
    )
    confined: bool = Field(
        False,
        description="Hide everything outside its namespace. Such a key works for notes, portals and recall only.",
    )
    scopes: list[Literal["read_memory", "write_memory", "delete_memory", "manage_links"]] = Field(
        [scope.value for scope in Scope], description="What it may do.", min_length=1
    )
    families: list[FamilyName] = Field([], description="The families it may use; an empty list means all.")
    expires: Annotated[str, Field(pattern=LIFETIME)] | None = Field(
        None, description="How long it works, such as 30m, 12h, 90d or 4w; null means without end."
    )


class KeyShown(BaseModel):
    id: str
    name: str
    key_prefix: str
    namespace: str
    confined: bool
    scopes: list[str]
    families: list[str]
    created_at: str
    expires_at: str | None
    revoked_at: str | None
    last_used_at: str | None

    @classmethod
    def of(cls, key: Key) -> "KeyShown":
        return cls.model_validate(_fields(key))


class NewKey(KeyShown):
    key: str = Field(description="The key itself, shown once and stored nowhere.")

    @classmethod
    def made(cls, issued: IssuedKey) -> "NewKey":
        return cls.model_validate({**_fields(issued.key), "key": issued.raw})


def _fields(key: Key) -> dict[str, Any]:
    own = {"scopes": sorted(key.scopes), "families": sorted(key.families), "confined": key.is_confined}
    return vars(key) | own


class KeysShown(BaseModel):
    keys: list[KeyShown]


class Revoked(BaseModel):
    id: str
    revoked: Literal[True] = True


class SessionShown(BaseModel):
    id: str
    client: str = Field(description="The client's name; empty if it sends none.")
    version: str
    ip: str | None = Field(description="Null on stdio.")
    transport: Transport
    protocol_version: str
    key_id: str | None = Field(description="Null on stdio.")
    key_name: str | None
    started_at: str
    last_call_at: str
    calls: int

    @classmethod
    def of(cls, client: Client, key_names: dict[str, str]) -> "SessionShown":
        fields = vars(client) | {"client": client.name, "key_name": key_names.get(client.key_id or "")}
        return cls.model_validate(fields)


class SessionsShown(BaseModel):
    sessions: list[SessionShown]


class Disconnected(BaseModel):
    id: str
    disconnected: Literal[True] = True


class EmbedStatsShown(BaseModel):
    queue_size: int
    total: int
    total_with_embedding: int
    backend_name: str | None
    backend_dim: int | None
    enabled: bool


class Reindexed(BaseModel):
    queued: int = Field(description="How many notes are queued for a vector now.")


class Named(BaseModel):
    name: str
    count: int


class AnalyticsTotals(BaseModel):
    memories: int
    namespaces: int
    embedded: int
    unembedded: int


class CoverageAt(BaseModel):
    hour: str
    total: int
    embedded: int


class CallsAt(BaseModel):
    hour: str
    calls: int
    errors: int


class AnalyticsShown(BaseModel):
    totals: AnalyticsTotals
    top_tags: list[Named]
    top_clients: list[Named]
    coverage: list[CoverageAt] = Field(description="Embedding coverage over time, by the hour.")
    calls: list[CallsAt] = Field(description="Tool calls over time, by the hour.")


class AuditEntry(BaseModel):
    id: int
    at: str
    action: str = Field(description="Such as key_created, key_used, signed_in, or the tool that deleted something.")
    key_id: str | None
    client: str
    ip: str | None
    details: dict[str, Any]

    @classmethod
    def of(cls, entry: AuditRecord) -> "AuditEntry":
        return cls.model_validate({"id": entry.id, "at": entry.at, **vars(entry.event)})


class AuditPage(BaseModel):
    entries: list[AuditEntry] = Field(description="The newest first.")
    next: int | None = Field(description="Send it as `before` for older ones; null on the last page.")


class SignInRequest(RequestBody):
    name: str = Field(min_length=1, max_length=64)
    password: str = Field(min_length=1, max_length=200)


class Me(BaseModel):
    id: str
    name: str
    plan: Plan
    created_at: str
    is_owner: bool = Field(description="Whether this server is yours: the routes under /api/users are for you.")
    may_back_up: bool = Field(description="Whether POST /api/backup is for you.")
    scopes: list[str] = Field(description="What you may do in the web app: read_memory, write_memory, delete_memory, …")


class GraphNode(BaseModel):
    id: str
    title: str
    namespace: str
    degree: int = Field(description="How many links it has, also to notes that are not here.")
    depth: int = Field(description="How many links away it is from the note that the graph is around.")


class GraphEdge(BaseModel):
    source_id: str
    target_id: str


class NotesGraph(BaseModel):
    nodes: list[GraphNode]
    edges: list[GraphEdge]
    total: int = Field(description="Notes that there are, not only those here.")


class NoteListed(BaseModel):
    id: str
    title: str
    snippet: str
    namespace: str
    tags: list[str]
    importance: float
    updated_at: str
    source: Source
    why: str | None = Field(None, description="By what a search found it: its words or its meaning.")


class TitlesShown(BaseModel):
    titles: list[str]


class NotesPage(BaseModel):
    notes: list[NoteListed] = Field(
        description="The latest written first, or as `order` says; in a search, the best match first."
    )
    next: str | None = Field(description="Send it as `after` for more; null on the last page.")


class FacetsShown(BaseModel):
    total: int = Field(description="How many notes match the filter.")
    namespaces: dict[str, int] = Field(description="Notes by namespace, as if the filter named none; most first.")
    tags: dict[str, int] = Field(description="Notes by tag, without the tags that the server adds.")
    clients: dict[str, int] = Field(description="Notes by who wrote them first, as if the filter named none.")
    sources: dict[str, int] = Field(description="Notes by how they came here, as if the filter named none.")
    days: dict[str, int] = Field(description="Notes by the day they were first written, in UTC, of all days.")


class WriteShown(BaseModel):
    family: FamilyName
    ref: str = Field(description="GET /api/open opens it.")
    title: str
    at: str
    text: str = Field(description="Its beginning, if `text` was requested; empty for portals.")
    client: str | None = Field(description="Who wrote a note, if that is known and `text` was requested.")
    source: Source | None = Field(description="How a note came here, if `text` was requested.")
    namespace: str | None = Field(description="Of a note, if `text` was requested.")
    origin: str | None = Field(
        description="Who last wrote it, such as `cursor with key laptop`, if that is recorded and `text` was requested."
    )


class Unread(BaseModel):
    family: FamilyName
    error: str


class WritesShown(BaseModel):
    writes: list[WriteShown] = Field(description="The last first.")
    incomplete: list[Unread] = Field(description="Families that could not be read, and why.")


class EntityDrawn(BaseModel):
    name: str
    type: str
    degree: int = Field(description="How many relations it has, also to entities that are not here.")


class RelationDrawn(BaseModel):
    source: str
    target: str
    type: str


class ProjectDrawn(BaseModel):
    nodes: list[EntityDrawn] = Field(description="The best connected first.")
    edges: list[RelationDrawn] = Field(description="Relations among these nodes.")
    total: int = Field(description="How many entities the project has.")


class StoreFile(BaseModel):
    data: str = Field(description="All bytes of the file, in base64.")
    changed_ns: str = Field(description="When it was last changed, in nanoseconds since 1970.")
    comes_back: bool = Field(description="Whether POST accepts it: by its name and its size.")


class StoreFilePutBack(RequestBody):
    path: str = Field(min_length=1, max_length=1024)
    data: Annotated[str, Field(pattern=BASE64)] = Field(description="As GET gave it.")
    changed_ns: Annotated[str, Field(pattern=r"^[0-9]{1,19}$")] = Field(description="As GET gave it.")


class StoreFileEdited(RequestBody):
    path: str = Field(min_length=1, max_length=1024)
    content: str = Field(description="The new markdown.", min_length=1, max_length=MAX_FIELD_BYTES)
    was: str = Field(description="The markdown before the edit.", max_length=MAX_FIELD_BYTES)


class MemoryRef(RequestBody):
    ref: str = Field(
        description="As recall_memories, GET /api/recent and GET /api/conversations give it.",
        min_length=1,
        max_length=MAX_REF_CHARS,
    )


class StorePath(BaseModel):
    store: str
    path: str


class StoreShown(BaseModel):
    name: str
    is_ours: bool = Field(description="Whether it is in the data directory.")


class StoresShown(BaseModel):
    stores: list[StoreShown]


class PortalShown(BaseModel):
    uri: str
    name: str = Field(description="The portal's display name; may be empty.")
    description: str
    tables: list[str]
    rows: int
    bytes: int

    @classmethod
    def of(cls, portal: PortalSummary) -> "PortalShown":
        return cls.model_validate(vars(portal))


class PortalsShown(BaseModel):
    portals: list[PortalShown]
