"""A portal in one file: a ClickHouse backup as tar, with a list of its contents and the SHA-256 of each part.

RESTORE runs every statement in the file, also one that makes a view over local files, and checks no checksums. So a
file is checked completely before it is restored.
"""

import io
import json
import re
import tarfile
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from posixpath import normpath
from typing import IO, Any
from xml.etree import ElementTree

from memory_mcp.engines.chdb.sql_policy import Functions, SyntaxNode, nodes_of
from memory_mcp.errors import Invalid

MANIFEST = "mcp-portal.json"
FORMAT = "memory-mcp-portal/1"
MAX_PARTS = 100_000
MAX_MANIFEST_BYTES = 32 * 1024 * 1024
MAX_CONTENTS_BYTES = 32 * 1024 * 1024  # of the engine's own list of contents
MAX_STATEMENT_BYTES = 1024 * 1024
MAX_PATH_BYTES = 4096
CHUNK_BYTES = 1024 * 1024
_MAX_PLAIN_BYTES = 8**11  # a size that fits into a tar header in digits
_PATH_OR_SIZE = re.compile(rb"([1-9][0-9]{0,4}) (path|size)=([^\n]+)\n")  # a record of a pax header
_LISTED = re.compile(r"(metadata|data)(/[A-Za-z0-9_%-][A-Za-z0-9_.%-]*)+")  # the part of the file that RESTORE reads
_ENGINES = {"MergeTree"}
# The parts of a plain table's statement. Anything else could drop, refuse or change rows that are written later.
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


class DamagedArchive(Invalid):
    """The file is not a portal, or was changed after it was made. The message says how."""


@dataclass(frozen=True)
class _Part:
    """Where the content of a file in the archive lies."""

    name: str
    offset: int
    size: int


def seal(path: Path | str, about: dict[str, Any]) -> None:
    """Add the list to a backup the engine has just made."""
    with Path(path).open("rb") as file:
        manifest = {"format": FORMAT, **about, "sha256": _digests(file, _parts(file))}
    manifest["seal"] = _seal(manifest)
    text = json.dumps(manifest, ensure_ascii=False, indent=1).encode()
    with tarfile.open(path, "a") as archive:
        entry = tarfile.TarInfo(MANIFEST)
        entry.size = len(text)
        archive.addfile(entry, io.BytesIO(text))


def manifest(path: Path | str) -> dict[str, Any]:
    """The list of contents in a file: its `tables` with their rows, and its `metadata`. Raises DamagedArchive if any
    part was changed."""
    try:
        with Path(path).open("rb") as file:
            parts = _parts(file)
            _check_end(file, parts)
            manifest = json.loads(_read(file, parts, MANIFEST, MAX_MANIFEST_BYTES))
            digests = _digests(file, parts)
    except (tarfile.TarError, ValueError, RecursionError, OSError, EOFError) as exc:
        raise DamagedArchive("This is not a portal file, or not all of it is there.") from exc
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise DamagedArchive("This is not a portal file of a kind this program knows.")
    if manifest.pop("seal", None) != _seal(manifest) or manifest.pop("sha256", None) != digests:
        raise DamagedArchive("This portal file was changed or damaged after it was made.")
    if not all(isinstance(manifest.get(part), dict) for part in ("tables", "metadata")):
        raise DamagedArchive("This portal file does not say what it holds.")
    return manifest


def verify(path: Path | str) -> None:
    """Raises DamagedArchive unless a file is a portal and no part was changed."""
    manifest(path)


def _parts(file: IO[bytes]) -> dict[str, _Part]:
    """The parts of a file by name, as its headers list them. Their contents are not read.

    Raises DamagedArchive for entries that no engine writes: sparse files, links, devices, headers for the whole
    file, and a part beyond the end of the file.
    """
    length = file.seek(0, io.SEEK_END)
    parts: dict[str, _Part] = {}
    extended: dict[str, str] = {}
    offset = 0
    while (entry := _header(file, offset)) is not None:
        offset += tarfile.BLOCKSIZE
        if entry.type == tarfile.XHDTYPE and not extended:
            extended, size = _extended(file, entry), entry.size
        else:
            part = _part(entry, offset, extended, length)
            if part.name in parts:
                raise DamagedArchive(f"This portal file holds {part.name[:200]!r} twice.")
            parts[part.name] = part
            extended, size = {}, part.size
        if len(parts) > MAX_PARTS:
            raise DamagedArchive("This portal file has too many parts.")
        offset += _padded(size)
    if extended:
        raise DamagedArchive("Not all of this portal file is there.")
    return parts


def _part(entry: tarfile.TarInfo, offset: int, extended: Mapping[str, str], length: int) -> _Part:
    name, size = extended.get("path", entry.name), int(extended.get("size", entry.size))
    is_plain_path = name == normpath(name).lstrip("/") and not name.startswith("..")
    if entry.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or not is_plain_path:
        raise DamagedArchive(f"This portal file holds {name[:200]!r}, which no portal does.")
    if not 0 <= size <= length - offset:
        raise DamagedArchive("Not all of this portal file is there.")
    return _Part(name, offset, size)


def _header(file: IO[bytes], offset: int) -> tarfile.TarInfo | None:
    """The header at an offset; None for the block of zeros that ends the file."""
    file.seek(offset)
    block = file.read(tarfile.BLOCKSIZE)
    if block == bytes(tarfile.BLOCKSIZE):
        return None
    if len(block) < tarfile.BLOCKSIZE:
        raise EOFError
    return tarfile.TarInfo.frombuf(block, "utf-8", "strict")


def _extended(file: IO[bytes], entry: tarfile.TarInfo) -> dict[str, str]:
    """The fields of a pax header for the next part: its path if that is long, and its size beyond 8 GiB."""
    text = file.read(entry.size) if entry.size <= MAX_PATH_BYTES else b""
    fields: dict[str, str] = {}
    offset = 0
    while (found := _PATH_OR_SIZE.match(text, offset)) and int(found[1]) == len(found[0]):
        fields[found[2].decode()] = found[3].decode()
        offset = found.end()
    is_size = fields.get("size", str(_MAX_PLAIN_BYTES))
    if not fields or offset != len(text) or not is_size.isdecimal() or int(is_size) < _MAX_PLAIN_BYTES:
        raise DamagedArchive("This portal file has a header that no portal has.")
    return fields


def _check_end(file: IO[bytes], parts: Mapping[str, _Part]) -> None:
    """Raises DamagedArchive unless a file ends like the files of this program: with zeros up to the end of a tar
    record."""
    end = max((_padded(part.offset + part.size) for part in parts.values()), default=0)
    whole = -(-(end + 2 * tarfile.BLOCKSIZE) // tarfile.RECORDSIZE) * tarfile.RECORDSIZE
    file.seek(end)
    if file.read(whole - end + 1) != bytes(whole - end):
        raise DamagedArchive("This portal file does not end where it should.")


def _padded(size: int) -> int:
    """The size, rounded up to the next block."""
    return -(-size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE


def _seal(manifest: Mapping[str, Any]) -> str:
    """The checksum of the list itself, so that a change of its tables is noticed, too."""
    return sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def _digests(file: IO[bytes], parts: Mapping[str, _Part]) -> dict[str, str]:
    """The SHA-256 of each part but the list itself."""
    return {name: _digest(file, part) for name, part in parts.items() if name != MANIFEST}


def _digest(file: IO[bytes], part: _Part) -> str:
    digest = sha256()
    for chunk in _chunks(file, part):
        digest.update(chunk)
    return digest.hexdigest()


def _chunks(file: IO[bytes], part: _Part) -> Iterator[bytes]:
    file.seek(part.offset)
    left = part.size
    while left:
        chunk = file.read(min(left, CHUNK_BYTES))
        if not chunk:
            raise EOFError
        left -= len(chunk)
        yield chunk


def check_statements(path: Path, parse: Callable[[str], SyntaxNode], functions: Functions) -> None:
    """Raises DamagedArchive unless the file makes plain tables and nothing else."""
    with path.open("rb") as file:
        parts = _parts(file)
        for name, part in _contents(_read(file, parts, ".backup", MAX_CONTENTS_BYTES)).items():
            if name.startswith("metadata/"):
                text = _read(file, parts, part, MAX_STATEMENT_BYTES).decode("utf-8", "replace")
                check_statement(name, parse(text), functions)


def _read(file: IO[bytes], parts: Mapping[str, _Part], name: str, max_bytes: int) -> bytes:
    if name not in parts:
        raise DamagedArchive("Not all of this portal file is there.")
    if parts[name].size > max_bytes:
        raise DamagedArchive(f"{name} in this portal file is too large.")
    return b"".join(_chunks(file, parts[name]))


def _contents(text: bytes) -> dict[str, str]:
    """The part that holds each file that RESTORE will read, by name. Equal files share one part.

    Raises DamagedArchive for an incremental backup, for a name that is listed twice (RESTORE uses the first), and for
    names that a portal of one machine does not have: RESTORE looks in shards/ before metadata/.
    """
    if b"<!" in text or b"<?" in text:
        raise DamagedArchive("This portal file's list of contents is not plain XML.")
    try:
        root = ElementTree.fromstring(text)  # noqa: S314  # no entities: see above
    except ElementTree.ParseError as exc:
        raise DamagedArchive("This portal file's list of contents cannot be read.") from exc
    if root.find("base_backup") is not None or any(one.find("use_base") is not None for one in root.iter("file")):
        raise DamagedArchive("This portal file needs another file. Export it whole.")
    contents: dict[str, str] = {}
    for file in root.iter("file"):
        name = file.findtext("name", "")
        tags = [part.tag for part in file]
        if name in contents or len(tags) != len(set(tags)):
            raise DamagedArchive(f"This portal file lists {name!r} twice.")
        if not _LISTED.fullmatch(name):
            raise DamagedArchive(f"This portal file lists {name!r}, which no portal does.")
        contents[name] = file.findtext("data_file") or name
    return contents


def _is_plain(tree: SyntaxNode) -> bool:
    """Whether a table has only columns, a sort order, and defaults that are values, ids or times."""
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


def _has_only(node: SyntaxNode, names: Set[str]) -> bool:
    return {name for name, value in node.items() if value} <= names


def check_statement(name: str, tree: SyntaxNode, functions: Functions) -> None:
    """Raises DamagedArchive unless a statement, by its name in a backup, makes a plain table or the database itself."""
    if tree.get("type") != "CreateQuery":
        raise DamagedArchive(f"{name} in this portal file makes something else than a table.")
    engine = ((tree.get("storage") or {}).get("engine") or {}).get("name")
    if name.count("/") == 1:  # the database itself
        if engine not in ("Atomic", None):
            raise DamagedArchive(f"{name} in this portal file is not a plain database.")
        return
    if engine not in _ENGINES or any(tree.get(kind) for kind in _NOT_A_TABLE):
        raise DamagedArchive(f"{name} in this portal file is not a plain table.")
    if not _is_plain(tree):
        raise DamagedArchive(f"{name} in this portal file is not a plain table.")
    for node, key in nodes_of(tree):
        kind = node.get("type")
        if kind in _NOT_IN_A_TABLE and key not in ("table", "database"):
            raise DamagedArchive(f"{name} in this portal file reads from elsewhere.")
        if kind == "Function" and key != "engine" and not functions.allow(node["name"]):
            raise DamagedArchive(f"{name} in this portal file calls {node['name']!r}.")
        is_type = key == "data_type" or str(kind).endswith(
            "DataType"
        )  # the type of a column, or a type inside that one
        if is_type and not functions.types.allow(str(node.get("name"))):
            raise DamagedArchive(f"{name} in this portal file has a column of the type {node.get('name')!r}.")
