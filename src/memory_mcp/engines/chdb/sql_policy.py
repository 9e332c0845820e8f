"""What a query may say: one SELECT over the tables of its portal, with functions that only compute.

It looks at the tree that the engine's own parser makes, so nothing can look one way to us and another way to the
engine. Everything not known to be harmless is refused.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass
from typing import Any

from memory_mcp.engines.chdb.data_types import DataTypes
from memory_mcp.errors import shorten
from memory_mcp.text.nearness import nearest_one

SyntaxNode = dict[str, Any]

_SAFE_CATEGORIES = {
    *("Aggregate Functions", "Type Conversion", "Dates and Times", "Arrays", "String", "String Search", "JSON"),
    *("Mathematical", "URL", "Arithmetic", "Map", "IP Address", "Comparison", "Tuple", "Hash", "Distance", "Bit"),
    # Not "Bitmap": a bitmap is a state of groupBitmap, and the engine reads a text beside one as a state, too.
    *("Encoding", "UUID", "String Splitting", "String Replacement", "Null", "Rounding", "Conditional"),
    *("Logical", "Time Window", "Random Number", "Geo", "Financial"),
}
_SAFE_OTHERS = {
    *("bar", "byteSize", "toTypeName", "toColumnTypeName", "formatReadableSize", "formatReadableDecimalSize"),
    *("formatReadableQuantity", "formatReadableTimeDelta", "transform", "identity", "ignore", "materialize"),
    *("isConstant", "rowNumberInAllBlocks", "rowNumberInBlock", "countDigits"),
    *("visibleWidth", "parseTimeDelta", "parseReadableSize", "parseReadableSizeOrNull", "parseReadableSizeOrZero"),
    *("variantElement", "variantType", "getSubcolumn", "currentDatabase", "version", "isDecimalOverflow"),
    *("defaultValueOfArgumentType", "throwIf", "caseWithExpression"),
}
# Functions that the parser makes from operators; the engine does not list them.
_SYNTAX = {"lambda", "exists", "grouping", "untuple", "array", "tuple", "not", "cast", "interval"}
# In a safe category, but refused: they read models, or call functions by name.
_UNWANTED = {
    *("formatRow", "formatRowNoNewline", "detectLanguage", "detectLanguageMixed", "detectLanguageUnknown"),
    *("detectCharset", "detectProgrammingLanguage", "detectTonality", "stem", "lemmatize", "synonyms", "flameGraph"),
    *("chdb", "naiveBayesNgrams", "initializeAggregation"),
}
_TABLE_FUNCTIONS = {"numbers", "generate_series", "generateSeries", "values", "SQLStandardValues"}
_NODES = {
    *("SelectWithUnionQuery", "SelectIntersectExceptQuery", "SelectQuery", "ExpressionList", "Identifier"),
    *("TableIdentifier", "Literal", "Function", "Asterisk", "QualifiedAsterisk", "ColumnsRegexpMatcher"),
    *("ColumnsListMatcher", "QualifiedColumnsRegexpMatcher", "QualifiedColumnsListMatcher", "ColumnsTransformerList"),
    *("ColumnsApplyTransformer", "ColumnsExceptTransformer", "ColumnsReplaceTransformer"),
    *("ColumnsReplaceTransformerReplacement", "TablesInSelectQuery", "TablesInSelectQueryElement", "TableExpression"),
    *("TableJoin", "ArrayJoin", "Subquery", "WithElement", "OrderByElement", "WindowDefinition", "WindowListElement"),
    *("QueryParameter", "SampleRatio", "InterpolateElement", "DataType", "StorageOrderByElement"),
}
_CLAUSES = (
    *("out_file", "format_ast", "format", "settings_ast", "settings", "compression", "compression_level"),
    *("is_outfile_append", "is_outfile_truncate", "is_into_outfile_with_stdout"),
)
_IN = re.compile(r"(?:global)?(?:not)?(?:null)?in(?:ignoreset)?", re.IGNORECASE)  # its second argument may be a table
# Which argument of a function is the name of a type, or of an aggregate function: it must be written out.
_TYPE_ARGUMENTS = {
    **dict.fromkeys(("cast", "_cast", "accuratecast", "accuratecastornull", "accuratecastordefault"), 1),
    **dict.fromkeys(("reinterpret", "dynamicelement", "variantelement", "getsubcolumn"), 1),
    **dict.fromkeys(("jsonextract", "jsonextractcaseinsensitive"), -1),
    **dict.fromkeys(("jsonextractkeysandvalues", "jsonextractkeysandvaluescaseinsensitive"), -1),
    "defaultvalueoftypename": 0,
}
_AGGREGATE_ARGUMENTS = {"arrayreduce": 0, "arrayreduceinranges": 0, "initializeaggregation": 0}
_AGGREGATE = re.compile(r"(\w+)(?:\([-\w.,' ]*\))?")  # its name, and parameters that are values
_PARAMETER = re.compile(
    r"^(Nullable\()?(U?Int(8|16|32|64|128|256)|Float(32|64)|Bool|String|FixedString\(\d+\)|Date|Date32|"
    r"DateTime(64)?(\([^()]*\))?|UUID|IPv[46]|Decimal(32|64|128)?\([\d, ]+\)|"
    r"Array\((String|U?Int\d+|Float\d+|UUID|Date|DateTime(64\(\d\))?)\)|Map\(String, ?String\))\)?$"
)
_STATE = re.compile("aggregatefunction", re.IGNORECASE)
_STATES = ("State", "Merge", "MergeState", "SimpleState")  # combinators that expose raw states
DATABASE = "portal"  # the name of every portal's database
ATTACHED_PREFIX = "lent_"  # prefix of the names of other portals' databases; users.xml allows readers in
MAX_QUERY_CHARS = 65_536  # characters of a query
MAX_NAMES_SHOWN = 20  # in an error
# What other databases call a function of this engine.
_FOREIGN_FUNCTIONS = {
    **dict.fromkeys(("strftime", "to_char", "date_part_str"), "formatDateTime"),
    **dict.fromkeys(("group_concat", "string_agg", "listagg"), "arrayStringConcat"),
    **dict.fromkeys(("strpos", "charindex"), "position"),
    **dict.fromkeys(("getdate", "sysdate", "datetime"), "now"),
    **{"len": "length", "nvl": "ifNull", "to_date": "toDate", "to_timestamp": "toDateTime", "to_number": "toFloat64"},
    **{"regexp_matches": "match", "percentile_cont": "quantile", "json_extract": "JSONExtractString"},
}


@dataclass(frozen=True)
class CheckedQuery:
    """A query that may run, as the engine formats it, and the types of its parameters."""

    text: str
    parameters: Mapping[str, str]


class QueryRefused(Exception):
    """The query cannot run. The message names the refused part.

    `code` is that of the error: read_only_query if the query is more than one SELECT over this portal. `nearest` is the
    existing name nearest to an unknown one.
    """

    def __init__(self, message: str, code: str = "read_only_query", nearest: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.nearest = nearest


class QueryTooLarge(Exception):
    """The query is too long or too deep. The message says which, and what to do."""


@dataclass(frozen=True)
class Functions:
    """The functions of the engine, and which of them are harmless."""

    known: Set[str]  # lower case
    safe: Set[str]
    safe_in_any_case: Set[str]  # lower case
    aggregates: Set[str]
    combinators: tuple[str, ...]
    in_operators: Set[str]  # lower case
    meant: Mapping[str, str]  # the function that an alias stands for, lower case
    types: DataTypes

    @classmethod
    def listed(
        cls,
        rows: Iterable[SyntaxNode],
        combinators: Iterable[str],
        table_functions: Iterable[str],
        types: DataTypes,
    ) -> "Functions":
        """From the rows of system.functions and similar tables."""
        rows = list(rows)
        by_name = {row["name"]: row for row in rows}
        safe = [(row, by_name.get(row["alias_to"], row)) for row in rows]
        safe = [(row, meant) for row, meant in safe if _is_safe(meant)]
        return cls(
            known={row["name"].lower() for row in rows} | {name.lower() for name in table_functions},
            safe={row["name"] for row, _ in safe},
            safe_in_any_case={row["name"].lower() for row, _ in safe if row["case_insensitive"]},
            aggregates={row["name"] for row, meant in safe if meant["is_aggregate"]},
            combinators=tuple(name for name in combinators if name not in _STATES),
            in_operators={row["name"].lower() for row in rows if _IN.fullmatch(row["alias_to"] or row["name"])},
            meant={row["name"].lower(): row["alias_to"].lower() for row in rows if row["alias_to"]},
            types=types,
        )

    def allow(self, name: str) -> bool:
        plain = name.lower()
        return name in self.safe or plain in _SYNTAX or plain in self.safe_in_any_case or self._is_combined(name)

    def allow_aggregate(self, text: str) -> bool:
        """Whether a text names an aggregate function that may be used, with its parameters or without."""
        found = _AGGREGATE.fullmatch(text)
        return found is not None and (self._is_aggregate(found[1]) or self._is_combined(found[1]))

    def _is_aggregate(self, name: str) -> bool:
        return name in self.aggregates or (name.lower() in self.safe_in_any_case and name.lower() in self._lower)

    def _is_combined(self, name: str) -> bool:
        """sumIf, countDistinctIf: an aggregate function and up to four endings."""
        for _ in range(4):
            ending = next((one for one in self.combinators if name.endswith(one) and name != one), None)
            if ending is None:
                return False
            name = name.removesuffix(ending)
            if self._is_aggregate(name):
                return True
        return False

    @property
    def _lower(self) -> Set[str]:
        return {name.lower() for name in self.aggregates}


def _is_safe(row: SyntaxNode) -> bool:
    return (
        row["origin"] == "System"
        and row["name"] not in _UNWANTED
        and (row["categories"] in _SAFE_CATEGORIES or row["name"] in _SAFE_OTHERS)
    )


def check(tree: SyntaxNode, functions: Functions, tables: Mapping[str, Set[str]]) -> None:
    """Raises QueryRefused unless the tree is one SELECT over these tables, and harmless.

    `tables` are by database; those of DATABASE need not be named with it.
    """
    if tree.get("type") != "SelectWithUnionQuery":
        raise QueryRefused("Only one SELECT is possible here.")
    nodes = list(nodes_of(tree))
    named = {str(node.get("name")) for node, _ in nodes if node.get("type") == "WithElement"}
    lambdas = {
        node["alias"]
        for node, _ in nodes
        if node.get("type") == "Function" and node.get("name") == "lambda" and node.get("alias")
    }
    for alias in lambdas:
        if alias.lower() in functions.known:
            raise QueryRefused(f"{alias!r} is the name of a function. Call the lambda something else.")
    looking = _Inspection(functions, tables, named, lambdas)
    for node, key in nodes:
        looking.at(node, key)


@dataclass(frozen=True)
class _Inspection:
    functions: Functions
    tables: Mapping[str, Set[str]]
    named: Set[str]  # by WITH
    lambdas: Set[str]

    def at(self, node: SyntaxNode, key: str) -> None:
        kind = node.get("type")
        if kind is None:
            return
        if kind not in _NODES:
            raise QueryRefused(f"{kind} is not possible here: only SELECT is.")
        for clause in _CLAUSES:
            if node.get(clause):
                raise QueryRefused("SETTINGS, FORMAT and INTO OUTFILE are not possible here. Leave them out.")
        look: Callable[[SyntaxNode], None] | None = {
            "ColumnsApplyTransformer": self._at_apply,
            "TableIdentifier": self._at_table,
            "TableJoin": self._at_join,
            "Identifier": self._at_identifier,
            "QueryParameter": self._at_parameter,
            "DataType": self._at_type,
        }.get(kind)
        if kind == "Function":
            self._at_function(node, is_table=key == "table_function")
        elif look:
            look(node)

    def _at_join(self, node: SyntaxNode) -> None:
        """NATURAL JOIN would also compare the hidden column, so it would find no rows."""
        if node.get("is_natural"):
            raise QueryRefused("NATURAL JOIN is not possible here. Name the columns: JOIN … USING (…).", "invalid")

    def _at_function(self, node: SyntaxNode, *, is_table: bool) -> None:
        name = node["name"]
        if is_table:
            if name not in _TABLE_FUNCTIONS:
                self._check_known(name, _TABLE_FUNCTIONS)
                raise QueryRefused(f"The table function {name!r} is not possible here: a query reads this portal only.")
        elif not (self.functions.allow(name) or name in self.lambdas):
            self._check_known(name)
            raise QueryRefused(f"The function {name!r} is not possible here.")
        arguments = (node.get("arguments") or {}).get("children") or []
        for position, argument in enumerate(arguments):
            self._at_argument(name, position, argument)
        self._check_names(name, arguments, is_table=is_table)

    def _check_known(self, name: str, allowed: Set[str] | None = None) -> None:
        """Raises QueryRefused for a function that the engine does not have, with the nearest of those allowed."""
        if name.lower() in self.functions.known:
            return
        message = f"There is no function {shorten(name)!r}."
        if meant := _FOREIGN_FUNCTIONS.get(name.lower()) or nearest_one(name, allowed or self.functions.safe):
            message += f" Did you mean {meant}?"
        raise QueryRefused(message, "unknown_function", meant)

    def _check_names(self, function: str, arguments: list[SyntaxNode], *, is_table: bool) -> None:
        """Types and aggregate functions that are named in texts: such a text must be a literal, and name
        something allowed. One that is computed, or comes in a parameter, could name anything."""
        plain = function.lower()
        plain = self.functions.meant.get(plain, plain)
        if is_table:
            self._check_structure(function, arguments)
            return
        for named, allows, kind in (
            (_TYPE_ARGUMENTS, self.functions.types.allow_text, "type"),
            (_AGGREGATE_ARGUMENTS, self.functions.allow_aggregate, "aggregate function"),
        ):
            if (position := named.get(plain)) is None or not -len(arguments) <= position < len(arguments):
                continue
            text = _text(arguments[position])
            if text is None:
                raise QueryRefused(f"{function}: write the name of the {kind} out, as a text.")
            if not allows(text):
                raise QueryRefused(f"{function}: the {kind} {text!r} is not possible here.")

    def _check_structure(self, function: str, arguments: list[SyntaxNode]) -> None:
        """The first argument of values(…) may be a text that names columns and their types. It must be a literal."""
        first = arguments[0] if arguments else {}
        if (structure := _text(first)) is not None:
            if not self._is_structure(structure):
                raise QueryRefused("The columns of values(…) have a type that is not possible here.")
        elif function == "values" and first.get("type") != "Literal" and first.get("name") not in ("tuple", "array"):
            raise QueryRefused("values(…): write the columns or the first row out.")

    def _is_structure(self, text: str) -> bool:
        """Whether a text, which may be the columns of a table or just a value, names only types that are allowed."""
        return not _STATE.search(text) and ("\\" not in text or self.functions.types.allow_text(text))

    def _at_argument(self, function: str, position: int, argument: SyntaxNode) -> None:
        if argument.get("type") == "Identifier":
            parts = _parts(argument)
            if function.lower() in self.functions.in_operators and position == 1:
                self._check_table(parts)
            elif len(parts) == 1 and parts[0].lower() in self.functions.known and not self.functions.allow(parts[0]):
                raise QueryRefused(f"{parts[0]!r} is also the name of a function. Write the column with its table.")

    def _at_apply(self, node: SyntaxNode) -> None:
        name = node.get("func_name")
        if name and not self.functions.allow(name):
            self._check_known(name)
            raise QueryRefused(f"The function {name!r} is not possible here.")

    def _at_table(self, node: SyntaxNode) -> None:
        self._at_identifier(node)
        self._check_table(_parts(node))

    def _at_identifier(self, node: SyntaxNode) -> None:
        if node.get("children"):
            raise QueryRefused("Names cannot be parameters here. Write them out.")
        for part in _parts(node):  # of a column, and which of its types is meant
            if _STATE.search(part) or "\\" in part:
                raise QueryRefused("States of aggregate functions are not possible here.")

    def _at_parameter(self, node: SyntaxNode) -> None:
        if not _PARAMETER.match(node.get("param_type", "")):
            raise QueryRefused(f"A parameter cannot be of the type {node.get('param_type')!r} here.")

    def _at_type(self, node: SyntaxNode) -> None:
        if not self.functions.types.allow(str(node.get("name"))):
            raise QueryRefused(f"The type {node.get('name')!r} is not possible here.")

    def _check_table(self, parts: list[str]) -> None:
        database, table = (DATABASE, parts[0]) if len(parts) == 1 else (parts[0], parts[-1])
        is_known = len(parts) <= 2 and table in self.tables.get(database, ())
        if not is_known and not (len(parts) == 1 and table in self.named):
            raise self._unknown_table(parts)

    def _unknown_table(self, parts: list[str]) -> QueryRefused:
        """Names only tables that this query may read."""
        database = parts[0] if len(parts) == 2 and parts[0] in self.tables else DATABASE
        tables = {name for name in self.tables[database] if not name.startswith("_")}
        known = tables | self.named if database == DATABASE else {f"{database}.{name}" for name in tables}
        message = f"There is no table {shorten('.'.join(parts))!r} in this portal."
        if meant := nearest_one(".".join(parts) if database != DATABASE else parts[-1], known):
            return QueryRefused(f"{message} Did you mean {meant!r}?", "unknown_table", meant)
        listed = ", ".join(sorted(known)[:MAX_NAMES_SHOWN]) or "no tables yet"
        return QueryRefused(f"{message} It has: {listed}.", "unknown_table")


def parameters(tree: SyntaxNode) -> dict[str, str]:
    """The types of a query's parameters, by name."""
    return {node["name"]: node["param_type"] for node, _ in nodes_of(tree) if node.get("type") == "QueryParameter"}


def renamed(node: Any, databases: Mapping[str, str], tables: Mapping[str, Set[str]]) -> Any:
    """A tree in which databases have other names: those of tables, and of columns written with their table.

    `a.b` may be a table of a database or a column of a table: it is the first if there is such a table.
    """
    if isinstance(node, list):
        return [renamed(child, databases, tables) for child in node]
    if not isinstance(node, dict):
        return node
    parts = node.get("name_parts") or []
    node = {name: renamed(child, databases, tables) for name, child in node.items()}
    is_name = node.get("type") in ("TableIdentifier", "Identifier") and len(parts) > 1 and parts[0] in databases
    if is_name and parts[1] in tables[databases[parts[0]]]:
        node["name_parts"] = [databases[parts[0]], *parts[1:]]
        if "name" in node:
            node["name"] = ".".join(node["name_parts"])
    return node


def _text(node: SyntaxNode) -> str | None:
    """The text of a node that is a literal; None for anything else."""
    value = node.get("value") if node.get("type") == "Literal" else None
    return str(value["value"]) if isinstance(value, dict) and value.get("field_type") == "String" else None


def _parts(node: SyntaxNode) -> list[str]:
    return [str(part) for part in node.get("name_parts") or [node.get("name")]]


def nodes_of(node: Any, key: str = "") -> Iterable[tuple[SyntaxNode, str]]:
    """Every node of a tree with its key in the parent, but not the values of literals."""
    if isinstance(node, dict):
        if "field_type" in node and "type" not in node:
            return
        yield node, key
        for name, child in node.items():
            yield from nodes_of(child, name)
    elif isinstance(node, list):
        for child in node:
            yield from nodes_of(child, key)
