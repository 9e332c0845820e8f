"""The laws of DESIGN, held by reading the imports."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "src" / "memory_mcp"
ROOMS = {"vault", "notes", "stores", "graph", "portals", "recall", "moving_in", "upkeep"}
SPANNING = {"recall", "moving_in", "upkeep"}  # rooms without tables of their own, which look over the others
READERS = {  # of moving_in, one for each foreign format
    *("server_memory", "mcp_memory_service", "basic_memory", "anthropic_memory", "mem0", "chatgpt", "claude"),
}
SERVICES = {
    "access",
    "sessions",
    "analytics",
    "live_db",
    "search",
    "embedding",
    "sqlite",
    "sync",
    "server_db",
    "files",
    "engine",
    "connecting",
    "workers",
}
STOPS = (  # in a room, each may import those before it
    *("model", "markdown", "sizes", "exchange", "picture", "paths", "yaml_text", "frontmatter", "index_files"),
    *("address", "inference", "places", "pieces"),
    *(
        "storage",
        "adoption",
        "schema",
        "files",
        "registry",
        "folders",
        "catalogue",
        "import_context",
        "record_imports",
        "archive_imports",
        "waiting",
        "meaning",
        "searching",
    ),
    *("keeping", "transfers", "answers", "writing", "replica", "operations", "texts", "resources", "prompts", "tools"),
)
SQL_ELSEWHERE = {
    ("search", "words"),
    ("moving_in", "mcp_memory_service"),  # about somebody else's file
    ("graph", "adoption"),  # the same
}
SHARED = {"errors", "caller", "cancellation", "clock", "changes", "neighbours", "families", "logs", "names", "settings"}
SDK = {"mcp", "mcp_types"}


def modules() -> Iterator[tuple[tuple[str, ...], set[str]]]:
    """(path inside the package, what it imports when it runs) of every module."""
    for path in PACKAGE.rglob("*.py"):
        yield path.relative_to(PACKAGE).with_suffix("").parts, set(imports(path))


def imports(path: Path) -> Iterator[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    typing_only = {id(node) for block in ast.walk(tree) if is_typing_only(block) for node in ast.walk(block)}
    for node in ast.walk(tree):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def is_typing_only(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def own(names: set[str]) -> set[str]:
    """The parts of our package among imported names: {'vault', 'sqlite', ...}."""
    return {name.split(".")[1] for name in names if name.startswith("memory_mcp.")}


def test_rooms_never_import_rooms_nor_doors() -> None:
    for (part, *_), names in modules():
        if part in ROOMS - SPANNING:
            assert not own(names) & ((ROOMS - {part}) | {"doors", "app", "cli"}), part


def test_readers_of_foreign_files_write_nothing() -> None:
    """They know what rooms take (models and pure functions), and no operation."""
    for (part, *rest), names in modules():
        if part == "moving_in" and rest[0] != "operations" and rest[0] != "__init__":
            assert not [name for name in names if ".operations" in name or name.split(".")[-1] in ("Notes", "Stores")]
            assert rest[0] in READERS | {"model", "fitting", "json_stream", "exports", "text_list", "folders"}


def test_services_know_no_room_and_no_door() -> None:
    for (part, *_), names in modules():
        if part in SERVICES:
            assert not own(names) & (ROOMS | SPANNING | {"doors", "app", "cli"}), part


def test_what_spans_rooms_knows_no_door() -> None:
    for (part, *_), names in modules():
        if part in SPANNING:
            assert not own(names) & {"doors", "app", "cli"}, part


def test_what_everybody_shares_knows_neither_rooms_nor_doors() -> None:
    for (part, *_), names in modules():
        if part in SHARED:
            assert not own(names) & (ROOMS | SPANNING | SERVICES | {"doors", "app", "cli"}), part


def test_every_part_of_the_house_is_known_here() -> None:
    assert {part for (part, *_), _ in modules()} <= ROOMS | SPANNING | SERVICES | SHARED | {
        "__init__",
        "__main__",
        "app",
        "cli",
        "doors",
    }


def test_in_a_room_imports_point_from_tools_to_operations_to_storage() -> None:
    for (part, *rest), names in modules():
        if part in ROOMS and rest and rest[0] in STOPS:
            later = STOPS[STOPS.index(rest[0]) + 1 :]
            assert not [name for name in names for stop in later if name.startswith(f"memory_mcp.{part}.{stop}")]


def test_storage_is_the_only_place_with_sql() -> None:
    for path in PACKAGE.rglob("*.py"):
        inside = path.relative_to(PACKAGE).with_suffix("").parts
        if inside[0] in ("sqlite", "engine") or inside[1:2] == ("storage",) or inside in SQL_ELSEWHERE:
            continue
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"\bSELECT\b[^\n]*\bFROM\b|INSERT INTO|DELETE FROM|\bUPDATE \w+ SET\b", text), path


def test_the_sdk_is_known_in_doors_only() -> None:
    for (part, *_), names in modules():
        if part != "doors":
            assert not {name.split(".")[0] for name in names} & SDK, part


def test_the_sdks_private_names_are_touched_in_one_module() -> None:
    for path in PACKAGE.rglob("*.py"):
        if path.relative_to(PACKAGE).parts == ("doors", "sdk.py"):
            continue
        private = [name for name in imports(path) if name.startswith("mcp.") and "._" in name]
        assert not private, path
        assert "._connection" not in path.read_text(encoding="utf-8").replace("self._connection", ""), path


def test_only_app_constructs_rooms() -> None:
    for (part, *_), names in modules():
        if part != "app" and part not in ROOMS:
            assert not {"memory_mcp.vault.Vault", "memory_mcp.notes.Notes", "memory_mcp.graph.Graph"} & names, part
