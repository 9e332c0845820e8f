"""The laws of DESIGN, held by reading the imports of every module."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest
from tools.sizes import function_lines

PACKAGE = Path(__file__).parents[1] / "src" / "memory_mcp"
FAMILIES = {f"families.{name}" for name in ("vault", "notes", "stores", "graph", "portals")}
LAYERS: tuple[set[str], ...] = (  # each may import those before it, and nothing imports a later one
    {
        "__init__",
        "errors",
        "caller",
        "clock",
        "cancellation",
        "retries",
        "progress",
        "changes",
        "peers",
        "logs",
        "text",
        "system",
        "settings",
        "relay",
        "hooks",
    },
    {
        "engines.__init__",
        "engines.texts",
        "engines.table_set",
        "engines.row_copy",
        "engines.postgres",
        "engines.transactions",
        "engines.files",
        "engines.isolation",
        "engines.sqlite",
        "engines.chdb",
        "engines.portal_engine",
        "engines.clickhouse",
    },
    {"services", "clients"},
    {
        "families.__init__",
        "families.texts",
        "families.family",
        "families.context",
        "families.maintenance",
        "families.references",
        "families.writes",
    },
    FAMILIES,
    {"families.recall", "families.write_review", "importers", "maintenance"},  # they span the families
    {"families.registry", "conversations"},
    {"app"},
    {"server"},
    {"cli", "start", "__main__"},
)
APART = FAMILIES | {
    "families.recall",
    "families.write_review",
    "importers",
    "maintenance",
}  # none of them imports another of its layer
IN_FAMILIES = {  # the modules of each, which may import those before them
    "vault": "model storage schema journal_items operations resources edits references maintenance family tools",
    "notes": "model list_model addresses storage schema markdown result_limits transactions former_versions "
    "journal_items replica_records replica_merge replica note_search change_events reader writer transfer review "
    "series operations resources edits references distillation prompts maintenance family tools",
    "stores": "model schema storage paths folder_scan folders yaml_text frontmatter catalogue index_files registry "
    "store_access category_indexes journal_items listings operations edits references maintenance family tools",
    "graph": "model storage journal_items adoption schema answers exchange databases files projects transfer "
    "operations edits references picture maintenance family tools",
    "portals": "model address allowed_folders answers downloads folders inference wider_types storage schema "
    "cross_portal_query journal row_undo table_undo journal_items row_copies limits import_context archive_imports "
    "text_files inspection exports usage portal_registry undoable_rows server_portals zip_files record_writer "
    "record_imports transfer_folders query_errors file_imports file_exports query_results operations composition "
    "search_texts resources references maintenance family tools forwarded_calls forwarded_files forwarder",
    "recall": "model background pages origins references overview fusion operations index latest counts tools family",
}
READERS = {  # of importers, one for each foreign format
    *("server_memory", "mcp_memory_service", "markdown_folder", "basic_memory", "anthropic_memory"),
    *("mem0", "chatgpt", "claude"),
}
SQL = re.compile(r"\bSELECT\b\s[^\"]*?\bFROM\b|\bINSERT INTO\b|\bDELETE FROM\b|\bUPDATE \w+ SET\b", re.DOTALL)
SQL_ELSEWHERE = {
    ("services", "search", "fts_query"),
    ("importers", "mcp_memory_service"),  # of a file of another program
    ("families", "graph", "adoption"),  # the same
}
SDK = {"mcp", "mcp_types"}
MAX_FILE_LINES, MAX_FUNCTION_LINES = 400, 40  # a function's docstring is not counted


@dataclass(frozen=True)
class Module:
    path: Path
    names: tuple[str, ...]  # of packages and of the module, inside the package

    @property
    def part(self) -> str:
        return _part(self.names)

    @cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def nodes(self) -> list[ast.AST]:
        return list(ast.walk(ast.parse(self.text)))

    @cached_property
    def imports(self) -> set[str]:
        """What it imports, when it runs or for types."""
        return {name for node in self.nodes for name in _imported(node)}

    @property
    def imports_at_its_start(self) -> set[str]:
        """Without those in functions, and those for types."""
        (root,) = (node for node in self.nodes if isinstance(node, ast.Module))
        return {name for node in root.body for name in _imported(node)}

    @cached_property
    def string_literals(self) -> list[str]:
        """Without docstrings."""
        prose = {id(node.value) for node in self.nodes if isinstance(node, ast.Expr)}
        return [
            node.value
            for node in self.nodes
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose
        ]


def _imported(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module:
        yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _part(names: tuple[str, ...]) -> str:
    return ".".join(names[:2] if names[0] in ("families", "engines") else names[:1])


def own_parts(imported: set[str]) -> set[str]:
    parts = {_part(tuple(name.split(".")[1:])) for name in imported if name.startswith("memory_mcp.")}
    return {"__init__" if part.startswith("__version") else part for part in parts}


MODULES = [Module(path, path.relative_to(PACKAGE).with_suffix("").parts) for path in sorted(PACKAGE.rglob("*.py"))]


@pytest.fixture(scope="module", autouse=True)
def _drop_trees() -> Iterator[None]:
    """A million objects would slow down the tests after these."""
    yield
    for module in MODULES:
        vars(module).pop("nodes", None)


def test_every_part_has_a_layer() -> None:
    assert {module.part for module in MODULES} == set().union(*LAYERS)


def test_imports_point_to_earlier_layers() -> None:
    for number, layer in enumerate(LAYERS):
        later = set().union(*LAYERS[number + 1 :])
        for module in MODULES:
            if module.part in layer:
                assert not own_parts(module.imports) & later, module.path


def test_families_do_not_import_each_other_nor_do_packages_that_span_them() -> None:
    for module in MODULES:
        if module.part in APART:
            layer = next(layer for layer in LAYERS if module.part in layer)
            assert not own_parts(module.imports) & (layer - {module.part}), module.path


def test_in_a_family_imports_point_from_tools_to_operations_to_storage() -> None:
    for module in MODULES:
        if module.names[0] == "families" and len(module.names) > 2 and module.names[2] != "__init__":
            _, family, name = module.names[:3]
            order = IN_FAMILIES[family].split()
            later = order[order.index(name) + 1 :]
            beside = {".".join(part.split(".")[3:4]) for part in module.imports if _is_of(part, family)}
            assert not beside & set(later), module.path


def _is_of(imported: str, family: str) -> bool:
    return imported.startswith(f"memory_mcp.families.{family}.")


def test_every_module_of_a_family_is_there() -> None:
    for family, order in IN_FAMILIES.items():
        found = {m.names[2] for m in MODULES if m.names[:2] == ("families", family)} - {"__init__"}
        assert found == set(order.split())


def test_readers_of_foreign_files_write_nothing() -> None:
    """They know what families take (models and pure functions), and no operation."""
    for module in MODULES:
        if module.part == "importers" and module.names[1] not in ("operations", "own_exports", "undo", "__init__"):
            imported = module.imports
            assert not [
                name for name in imported if ".operations" in name or name.split(".")[-1] in ("Notes", "Stores")
            ]
            helpers = {"model", "bounds", "json_records", "archives", "text_list", "folders"}
            assert module.names[1] in READERS | helpers | {"readers", "found_items", "upload_reader", "history"}


def test_storage_is_the_only_place_with_sql() -> None:
    for module in MODULES:
        if module.names[0] == "engines" or "storage" in module.names or module.names in SQL_ELSEWHERE:
            continue
        found = [text for text in module.string_literals if SQL.search(text)]
        assert not found, module.path


def test_the_sdk_is_known_in_the_server_only() -> None:
    for module in MODULES:
        if module.part != "server":
            assert not {name.split(".")[0] for name in module.imports} & SDK, module.path


def test_the_sdks_private_names_are_touched_in_one_module() -> None:
    for module in MODULES:
        if module.names == ("server", "sdk"):
            continue
        assert not [name for name in module.imports if name.startswith("mcp.") and "._" in name], module.path
        assert "._connection" not in module.text.replace("self._connection", ""), module.path


def test_servers_over_stdio_import_no_web_server() -> None:
    """FastAPI takes a tenth of a second of their start, the parser of HTTP a hundredth."""
    modules = {".".join(("memory_mcp", *module.names)).removesuffix(".__init__"): module for module in MODULES}
    to_read, seen = ["memory_mcp.server.stdio", "memory_mcp.server.shared.process"], set[str]()
    while to_read:
        name = to_read.pop()
        to_read += [parent for parent in (name.rpartition(".")[0],) if parent]
        if name in modules and name not in seen:
            seen.add(name)
            imported = modules[name].imports_at_its_start
            assert not {one for one in imported if one.split(".")[0] in ("fastapi", "h11", "uvicorn")}, name
            to_read += imported
    assert {"memory_mcp.app", "memory_mcp.server.protocol"} <= seen


def test_a_family_opens_itself() -> None:
    """Its operations are constructed in its own package; recall has copies of texts in notes of its own."""
    classes = {"vault": "Vault", "notes": "Notes", "stores": "Stores", "graph": "Graph", "portals": "Portals"}
    for module in MODULES:
        calls = {
            node.func.id for node in module.nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        }
        for family, name in classes.items():
            own = {"families." + family} | ({"families.recall"} if family == "notes" else set())
            is_known = any(_is_of(part, family) and part.endswith(f".{name}") for part in module.imports)
            assert module.part in own or not (is_known and name in calls), module.path


def test_locks_are_known_in_one_module() -> None:
    for module in MODULES:
        if module.names not in (("engines", "files", "lock"), ("relay", "lock")):  # the latter imports little
            assert not {name.split(".")[0] for name in module.imports} & {"fcntl", "filelock"}, module.path


def test_the_operating_system_is_known_in_one_module() -> None:
    """Linux's kernel has modules of its own, chDB is not there for Windows, and the relay imports little."""
    apart = {
        ("engines", "files", "rename"),
        ("engines", "isolation"),
        ("engines", "chdb"),
        ("relay",),
        ("system", "unix_sockets"),
    }
    for module in MODULES:
        parts = {module.names[:length] for length in (1, 2, 3)}
        if module.names != ("system", "operating_system") and not parts & apart:
            found = re.search(r"\bos\.name\b|\bsys\.platform\b|\bO_CLOEXEC\b|hasattr\(socket", module.text)
            assert not found, module.path


def test_the_names_of_sqlites_siblings_are_known_in_one_module() -> None:
    for module in MODULES:
        if module.names != ("engines", "sqlite", "sibling_files"):
            found = [text for text in module.string_literals if re.search(r"-(wal|shm|journal)\b", text)]
            assert not found, module.path


def test_a_class_name_means_one_thing() -> None:
    """Also the name of a type, except of arguments (`Annotated`), which a tool or a command defines for itself."""
    owners: dict[str, list[str]] = {}
    for module in MODULES:
        for name in _type_names(ast.parse(module.text)):
            owners.setdefault(name, []).append(".".join(module.names))
    assert {name: modules for name, modules in owners.items() if len(modules) > 1} == {}


def _type_names(module: ast.Module) -> Iterator[str]:
    for node in module.body:
        if isinstance(node, ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            is_argument = ast.unparse(node.value).startswith(("Annotated", "TypeVar"))
            if re.fullmatch("_?[A-Z][A-Za-z]*[a-z][A-Za-z]*", name) and not is_argument:
                yield name


def test_files_are_short() -> None:
    for module in MODULES:
        name = module.path.relative_to(PACKAGE).as_posix()
        lines = module.text.count("\n")
        assert lines <= MAX_FILE_LINES, name


def test_functions_are_short() -> None:
    """Also those of tests, benchmarks and tools."""
    root = Path(__file__).parents[1]
    for path in (path for folder in ("src", "tests", "benchmarks", "tools") for path in (root / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert function_lines(node) <= MAX_FUNCTION_LINES, f"{path.relative_to(root)}:{node.name}"


def test_only_one_module_of_the_tests_sleeps() -> None:
    """Others wait with it for an event: a sleep guesses how fast the machine is."""
    tests = Path(__file__).parent
    sleeping = re.compile(r"\b(time|asyncio|anyio)\.sleep\(|\bimport sleep\b|\.wait_for_timeout\(")
    found = {str(path.relative_to(tests)) for path in tests.rglob("*.py") if sleeping.search(path.read_text("utf-8"))}
    assert found == {"events.py", "web/pictures.py"}  # the latter draws the pictures of the docs


def test_no_test_fails_because_the_machine_is_busy() -> None:
    """What waits for an event waits for `events.TIMEOUT_S`, in which only an error does not happen."""
    tests = Path(__file__).parent
    short = re.compile(r"(\btimeout(_s)?=|\.wait\(|\bfail_after\(|\.result\()([1-9]|[1-5]\d)(?=[,)])")
    found = {str(path.relative_to(tests)): short.findall(path.read_text("utf-8")) for path in tests.rglob("*.py")}
    assert {name: waits for name, waits in found.items() if waits} == {}
