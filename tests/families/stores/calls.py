"""Short ways to call the stores' tools in tests, and to look at folders."""

import os
import threading
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import yaml
from mcp import Client

from memory_mcp.app import App
from memory_mcp.caller import ALL_SCOPES, LOCAL_USER, Caller
from tests.families.vault.calls import call, refusal

__all__ = ["CALLER", "LONG_AGO", "NOON", "call", "refusal"]

CALLER = Caller(LOCAL_USER, ALL_SCOPES, frozenset({"stores"}))
NOON = "2030-01-01T12:00:00Z"
LONG_AGO = "2020-01-01T00:00:00Z"
MARK = "# Made by Memory MCP from the files beside it. Changes made here are lost."


async def add(client: Client, path: str, content: str = "something", store: str = "s", **more: Any) -> None:
    answer = await call(client, "add_memory", store=store, path=path, content=content, **more)
    assert answer == {"store": store, "path": path, "created": True}


async def get(client: Client, path: str, store: str = "s", **more: Any) -> dict[str, Any]:
    return await call(client, "get_memory", store=store, path=path, **more)


async def content(client: Client, path: str, store: str = "s") -> str:
    return str((await get(client, path, store))["content"])


async def metadata(client: Client, path: str, store: str = "s") -> dict[str, Any]:
    found: dict[str, Any] = (await get(client, path, store, include_expired=True))["metadata"]
    return found


async def update(client: Client, path: str, store: str = "s", **changes: Any) -> None:
    answer = await call(client, "update_memory", store=store, path=path, **changes)
    assert answer == {"store": store, "path": path, "updated": True}


async def move(client: Client, from_path: str, to_path: str, store: str = "s") -> None:
    answer = await call(client, "move_memory", store=store, from_path=from_path, to_path=to_path)
    assert answer == {"store": store, "from_path": from_path, "to_path": to_path, "moved": True}


async def listed(client: Client, category: str | None = None, store: str = "s", **more: Any) -> list[str]:
    """The paths of a category's memories."""
    where = {"category": category} if category else {}
    answer = await call(client, "list_memories", store=store, **where, **more)
    assert answer["count"] == len(answer["memories"])
    return [memory["path"] for memory in answer["memories"]]


async def summaries(client: Client, category: str | None = None, store: str = "s") -> dict[str, str]:
    where = {"category": category} if category else {}
    answer = await call(client, "list_memories", store=store, **where)
    return {memory["path"]: memory["summary"] for memory in answer["memories"]}


async def subcategories(client: Client, category: str | None = None, store: str = "s") -> list[str]:
    where = {"category": category} if category else {}
    found: list[str] = (await call(client, "list_memories", store=store, **where))["subcategories"]
    return found


async def recent(client: Client, store: str = "s", **more: Any) -> dict[str, str]:
    """The contents of the latest memories by path, in their order."""
    answer = await call(client, "cortex_get_recent_memories", store=store, **more)
    assert answer["count"] == len(answer["memories"])
    return {memory["path"]: memory["content"] for memory in answer["memories"]}


async def refused(client: Client, tool: str, code: str, **arguments: Any) -> str:
    """The message of a call that must fail with this code, which the caller can fix."""
    error = (await refusal(client, tool, store="s", **arguments)).error
    assert error.code == -32602
    assert error.data["error"] == code
    return str(error.message)


def register(app: App, folder: Path, name: str = "s") -> Path:
    """Make an existing folder a store."""
    app.stores.register(CALLER, name, folder)
    return folder


def write(folder: Path, path: str, text: str = "something\n") -> Path:
    """What a person's editor does: in place, without a temporary file."""
    file = folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8", newline="")
    return file


def settle(*files: Path) -> None:
    """As if the files had last been saved an hour ago."""
    for file in files:
        found = file.stat()
        os.utime(file, ns=(found.st_atime_ns, found.st_mtime_ns - 3600 * 10**9))


def tree(folder: Path) -> dict[str, str]:
    """Everything below a folder, by path: what it is, who may read it and a hash of what it says."""
    found = {}
    for path in sorted(folder.rglob("*")):
        kind = "link" if path.is_symlink() else "folder" if path.is_dir() else "file"
        content = str(path.readlink()).encode() if kind == "link" else path.read_bytes() if kind == "file" else b""
        status = path.lstat()
        when = status.st_mtime_ns if kind == "file" else 0
        found[str(path.relative_to(folder))] = f"{kind} {status.st_mode:o} {sha256(content).hexdigest()} {when}"
    return found


def index(folder: Path) -> Any:
    """What a category's index.yaml says."""
    return yaml.safe_load((folder / "index.yaml").read_text(encoding="utf-8"))


def indexes(folder: Path) -> set[str]:
    """The categories below a folder that have an index.yaml; '.' is the top."""
    return {path.parent.relative_to(folder).as_posix() for path in folder.rglob("index.yaml")}


def entry(path: str, summary: str, updated_at: str | None = NOON, token_estimate: int | None = None) -> dict[str, Any]:
    """A memory as an index has it."""
    estimate = -(-len(summary) // 4) if token_estimate is None else token_estimate
    return {"path": path, "token_estimate": estimate, "summary": summary, "updated_at": updated_at}


def unfinished(folder: Path) -> list[Path]:
    return list(folder.rglob(".*memory-mcp-part"))


def at_once(*acts: Callable[[], object]) -> None:
    """Run them all at the same time; the first thing that went wrong is raised."""
    wrong: list[BaseException] = []

    def run(act: Callable[[], object]) -> None:
        try:
            act()
        except BaseException as exc:  # noqa: BLE001  # raised again below
            wrong.append(exc)

    threads = [threading.Thread(target=run, args=(act,)) for act in acts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if wrong:
        raise wrong[0]


def files(store: Path) -> set[str]:
    return {path.relative_to(store).as_posix().removesuffix(".md") for path in store.rglob("*.md")}


def check_indexes(store: Path) -> None:
    """Every folder with memories below it has an index.yaml, which says exactly what lies beside it."""
    folders = {folder for path in store.rglob("*.md") for folder in path.parents if folder.is_relative_to(store)}
    for folder in folders:
        found = yaml.safe_load((folder / "index.yaml").read_text())
        way = [] if folder == store else [folder.relative_to(store).as_posix()]
        assert {one["path"] for one in found["memories"]} == {"/".join([*way, p.stem]) for p in folder.glob("*.md")}
        assert set(found["subcategories"]) == {"/".join([*way, p.name]) for p in folders if p.parent == folder}
