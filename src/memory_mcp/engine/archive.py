"""A portal in one file: a ClickHouse backup as tar, with a list of what it holds and the SHA-256 of each part.

RESTORE makes whatever the statements inside say, views over files of this machine included, and does not look at
checksums. So a file is read through before it is restored.
"""

import io
import json
import re
import tarfile
from collections.abc import Callable, Iterator, Mapping, Set
from hashlib import sha256
from pathlib import Path
from posixpath import normpath
from typing import IO, Any
from xml.etree import ElementTree

from memory_mcp.engine.wall import Functions, Node, nodes_of

MANIFEST = "mcp-portal.json"
FORMAT = "memory-mcp-portal/1"
MOST_ENTRIES = 100_000
AT_ONCE = 1024 * 1024  # bytes read at once
_LISTED = re.compile(r"(metadata|data)(/[A-Za-z0-9_%-][A-Za-z0-9_.%-]*)+")  # what RESTORE is given to read
_ENGINES = {"MergeTree"}
# What a plain table's statement has. Anything else could drop, refuse or change what is written later.
_IN_STORAGE = {"type", "engine", "order_by", "primary_key", "settings"}
_IN_COLUMNS = {"type", "columns"}
_IN_COLUMN = {"type", "name", "data_type", "default_specifier", "default_expression", "comment"}
_SETTINGS = {"index_granularity"}
_IN_DEFAULTS = {"generateUUIDv4", "generateUUIDv7", "now", "now64", "today"}
_NOT_A_TABLE = (
    *("is_ordinary_view", "is_materialized_view", "is_dictionary", "is_window_view", "is_refreshable_view"),
    *("select", "as_table", "as_table_function", "dictionary", "targets", "refresh_strategy", "has_attach_from_path"),
)
_NOT_IN_A_TABLE = {"Subquery", "SelectQuery", "SelectWithUnionQuery", "TableIdentifier"}


class Damaged(Exception):
    """The file is no portal, or not as it was when it was made. The message says how."""


def seal(path: Path, about: dict[str, Any]) -> None:
    """Add the list to a backup the engine has just made."""
    said = {"format": FORMAT, **about, "sha256": dict(_digests(path))}
    said["seal"] = _seal(said)
    text = json.dumps(said, ensure_ascii=False, indent=1).encode()
    with tarfile.open(path, "a") as archive:
        entry = tarfile.TarInfo(MANIFEST)
        entry.size = len(text)
        archive.addfile(entry, io.BytesIO(text))


def manifest(path: Path) -> dict[str, Any]:
    """What a file says it holds. Raises Damaged unless every part is as it was."""
    try:
        with tarfile.open(path, "r:") as archive:
            entry = archive.extractfile(MANIFEST)
            said = json.load(entry) if entry else {}
        digests = dict(_digests(path))
        _check_end(path)
    except (tarfile.TarError, KeyError, ValueError, OSError, EOFError) as exc:
        raise Damaged("This is not a portal file, or not all of it is there.") from exc
    if not isinstance(said, dict) or said.get("format") != FORMAT:
        raise Damaged("This is not a portal file of a kind this program knows.")
    if said.get("sha256") != digests or said.pop("seal", None) != _seal(said):
        raise Damaged("This portal file was changed or damaged after it was made.")
    if not all(isinstance(said.get(part), dict) for part in ("tables", "metadata")):
        raise Damaged("This portal file does not say what it holds.")
    return said


def _check_end(path: Path) -> None:
    """Raises Damaged unless a file ends as those do that this program makes: with nothing but zeros, to a record."""
    with tarfile.open(path, "r:") as archive:
        entry = archive.getmembers()[-1]
    end = entry.offset_data + -(-entry.size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE
    whole = -(-(end + 2 * tarfile.BLOCKSIZE) // tarfile.RECORDSIZE) * tarfile.RECORDSIZE
    with path.open("rb") as file:
        file.seek(end)
        if file.read(whole - end + 1) != bytes(whole - end):
            raise Damaged("This portal file does not end where it should.")


def _seal(said: Mapping[str, Any]) -> str:
    """Of the list itself: what it says of tables is as it was, too."""
    return sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def _digests(path: Path) -> Iterator[tuple[str, str]]:
    """The SHA-256 of each part but the list itself."""
    seen: set[str] = set()
    with tarfile.open(path, "r:") as archive:
        for entry in archive:
            if len(seen) > MOST_ENTRIES:
                raise Damaged("This portal file has too many parts.")
            is_plain = entry.isfile() or entry.isdir()
            is_usual = entry.name == normpath(entry.name).lstrip("/") and not entry.name.startswith("..")
            if not is_plain or not is_usual or entry.name in seen:
                raise Damaged(f"This portal file holds {entry.name!r}, which no portal does.")
            seen.add(entry.name)
            part = archive.extractfile(entry)
            if part and entry.name != MANIFEST:
                yield entry.name, _digest(part)


def _digest(part: IO[bytes]) -> str:
    digest = sha256()
    while chunk := part.read(AT_ONCE):
        digest.update(chunk)
    return digest.hexdigest()


def check_statements(path: Path, parse: Callable[[str], Node], functions: Functions) -> None:
    """Raises Damaged unless the file makes plain tables and nothing else."""
    with tarfile.open(path, "r:") as archive:
        for name, part in _contents(_read(archive, ".backup")).items():
            if name.startswith("metadata/"):
                check_statement(name, parse(_read(archive, part).decode("utf-8", "replace")), functions)


def _read(archive: tarfile.TarFile, name: str) -> bytes:
    try:
        part = archive.extractfile(name)
    except KeyError:
        part = None
    if part is None:
        raise Damaged("Not all of this portal file is there.")
    return part.read()


def _contents(text: bytes) -> dict[str, str]:
    """What RESTORE will find under which name, and the part it lies in: equal ones are kept once.

    Raises Damaged for a backup that goes on from another, that lists a name twice, of which RESTORE takes the first,
    or that lists others than a portal of one machine does: RESTORE looks in shards/ before metadata/.
    """
    if b"<!" in text or b"<?" in text:
        raise Damaged("This portal file's list of contents is no plain XML.")
    try:
        root = ElementTree.fromstring(text)  # noqa: S314  # no entities: see above
    except ElementTree.ParseError as exc:
        raise Damaged("This portal file's list of contents cannot be read.") from exc
    if root.find("base_backup") is not None or any(one.find("use_base") is not None for one in root.iter("file")):
        raise Damaged("This portal file needs another file. Export it whole.")
    contents: dict[str, str] = {}
    for file in root.iter("file"):
        name = file.findtext("name", "")
        said = [part.tag for part in file]
        if name in contents or len(said) != len(set(said)):
            raise Damaged(f"This portal file lists {name!r} twice.")
        if not _LISTED.fullmatch(name):
            raise Damaged(f"This portal file lists {name!r}, which no portal does.")
        contents[name] = file.findtext("data_file") or name
    return contents


def _is_plain(tree: Node) -> bool:
    """Columns, what they are sorted by, and defaults that are values, ids or times."""
    storage, columns = tree.get("storage") or {}, tree.get("columns_list") or {}
    declared = (columns.get("columns") or {}).get("children") or []
    settings = {change["name"] for change in (storage.get("settings") or {}).get("changes", ())}
    defaults = (node for column in declared for node, _ in nodes_of(column.get("default_expression") or {}))
    return (
        _has_only(storage, _IN_STORAGE)
        and _has_only(columns, _IN_COLUMNS)
        and settings <= _SETTINGS
        and all(_has_only(column, _IN_COLUMN) for column in declared)
        and all(column.get("default_specifier") in (None, "DEFAULT") for column in declared)
        and all(node["name"] in _IN_DEFAULTS for node in defaults if node.get("type") == "Function")
    )


def _has_only(node: Node, names: Set[str]) -> bool:
    return {name for name, value in node.items() if value} <= names


def check_statement(name: str, tree: Node, functions: Functions) -> None:
    """Raises Damaged unless a statement, by its name in a backup, makes a plain table or the database itself."""
    if tree.get("type") != "CreateQuery":
        raise Damaged(f"{name} in this portal file makes something else than a table.")
    engine = ((tree.get("storage") or {}).get("engine") or {}).get("name")
    if name.count("/") == 1:  # the database itself
        if engine not in ("Atomic", None):
            raise Damaged(f"{name} in this portal file is no plain database.")
        return
    if engine not in _ENGINES or any(tree.get(kind) for kind in _NOT_A_TABLE):
        raise Damaged(f"{name} in this portal file is no plain table.")
    if not _is_plain(tree):
        raise Damaged(f"{name} in this portal file is no plain table.")
    for node, key in nodes_of(tree):
        kind = node.get("type")
        if kind in _NOT_IN_A_TABLE and key not in ("table", "database"):
            raise Damaged(f"{name} in this portal file reads from elsewhere.")
        if kind == "Function" and key != "engine" and not functions.allow(node["name"]):
            raise Damaged(f"{name} in this portal file calls {node['name']!r}.")
