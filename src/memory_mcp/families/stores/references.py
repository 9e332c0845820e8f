"""References of stores: stores:STORE/PATH, of a memory or a category, and stores:STORE."""

from dataclasses import asdict

from memory_mcp.errors import NotFound
from memory_mcp.families.family import Call
from memory_mcp.families.references import NamedByReference, Opened, References, TakesReference, text_of_list
from memory_mcp.families.stores.edits import EDITS
from memory_mcp.families.stores.model import PREFIX, Category, ref_of, split_ref
from memory_mcp.families.stores.operations import Stores


def _open(call: Call[Stores], ref: str) -> Opened:
    store, path = split_ref(ref)
    if not path:
        return _category(call, store, None)
    try:
        return _memory(call, store, path)
    except NotFound as missing:
        try:
            return _category(call, store, path)
        except NotFound:
            raise missing from None


def _named_path(text: str) -> NamedByReference | None:
    store, path = split_ref(text)
    return NamedByReference(path, {"store": store}) if text.startswith(PREFIX) and path else None


def _named_store(text: str) -> NamedByReference | None:
    store, path = split_ref(text)
    return NamedByReference(store) if text.startswith(PREFIX) and not path else None


PATH = TakesReference(_named_path)
NEW_PATH = TakesReference(_named_path, may_be_new=True)
STORE = TakesReference(_named_store)


def _memory(call: Call[Stores], store: str, path: str) -> Opened:
    memory = call.operations.get(call.caller, store, path, include_expired=True)
    times = memory.metadata.created_at, memory.metadata.updated_at
    return Opened(ref_of(store, memory.path), memory.path, memory.content, asdict(memory), *times)


def _category(call: Call[Stores], store: str, path: str | None) -> Opened:
    found = call.operations.list_category(call.caller, store, path, 0, include_expired=True)
    latest = max((one.updated_at for one in found.memories if one.updated_at), default=None)
    ref = ref_of(store, path) if path else f"{PREFIX}{store}"
    return Opened(ref, path or store, _text(store, path, found), asdict(found), updated_at=latest)


def _text(store: str, path: str | None, found: Category) -> str:
    folders = [f"{ref_of(store, name)} (category)" for name in found.subcategories]
    files = [f"{ref_of(store, one.path)} ({one.updated_at}): {one.summary}" for one in found.memories]
    heading = f"Category {path} of the store {store}" if path else f"Store {store}"
    text = text_of_list(heading, [*folders, *files])
    return f"{text}\n{found.notice}" if found.notice else text


REFERENCES = References[Stores](
    "stores:STORE/PATH", (PREFIX,), _open, tool="get_memory", all_groups=PREFIX, edits=EDITS
)
