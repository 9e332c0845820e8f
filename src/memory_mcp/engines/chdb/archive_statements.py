"""What the statements in a portal file may make: plain tables.

RESTORE runs every statement in the file, also one that makes a view over local files. So the engine's process checks
them before it restores a file, and the tables once more after that.
"""

import re
from collections.abc import Callable, Set
from pathlib import Path
from xml.etree import ElementTree

from memory_mcp.engines.chdb.archive import DamagedArchive, parts_of, read_part
from memory_mcp.engines.chdb.frames import MARK_COLUMN
from memory_mcp.engines.chdb.sql_policy import Functions, SyntaxNode, nodes_of

MAX_CONTENTS_BYTES = 32 * 1024 * 1024  # of the engine's own list of contents
MAX_STATEMENT_BYTES = 1024 * 1024
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


def check_statements(path: Path, parse: Callable[[str], SyntaxNode], functions: Functions) -> None:
    """Raises DamagedArchive unless the file makes plain tables and nothing else."""
    with path.open("rb") as file:
        parts = parts_of(file)
        for name, part in _contents(read_part(file, parts, ".backup", MAX_CONTENTS_BYTES)).items():
            if name.startswith("metadata/"):
                text = read_part(file, parts, part, MAX_STATEMENT_BYTES).decode("utf-8", "replace")
                check_statement(name, parse(text), functions)


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
        and all(column.get("default_specifier") in (None, "DEFAULT") or _is_mark(column) for column in declared)
        and all(node["name"] in _IN_DEFAULTS for node in defaults if node.get("type") == "Function")
    )


def _is_mark(column: SyntaxNode) -> bool:
    """Whether a column is the one that says which write each row is from."""
    kind = (column.get("data_type") or {}).get("name")
    return (column.get("name"), column.get("default_specifier"), kind) == (MARK_COLUMN, "MATERIALIZED", "UInt64") and (
        column.get("default_expression") or {}
    ).get("type") == "Literal"


def _check_mark(name: str, tree: SyntaxNode) -> None:
    """Raises DamagedArchive if a table has the column with the number of each row's write, but not as this program
    makes it. A column of that name without a default is one of the table's own."""
    columns = ((tree.get("columns_list") or {}).get("columns") or {}).get("children") or []
    marks = [column for column in columns if column.get("name") == MARK_COLUMN]
    storage = tree.get("storage") or {}
    sorted_by = (node for part in ("order_by", "primary_key") for node, _ in nodes_of(storage.get(part) or {}))
    is_plain = all(column.get("default_specifier") is None or _is_mark(column) for column in marks)
    if not is_plain or any(node.get("name") == MARK_COLUMN for node in sorted_by):
        raise DamagedArchive(
            f"{name} in this portal file has a column {MARK_COLUMN!r} with a default, or is sorted by it. Give that "
            "column another name in the program that made the file, or import the table as parquet, json or csv."
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
    _check_mark(name, tree)
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
