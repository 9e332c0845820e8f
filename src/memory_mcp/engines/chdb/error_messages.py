"""Error messages of the engine, reworded for the caller: without internals, and with a hint what to do."""

import re

SYNTAX_ERROR = "syntax error at position"
TOO_DEEP = (
    "The query is nested too deeply: 150 operators or parentheses in a row fit, 300 functions in each other and 80 "
    "subqueries. Use IN or a list for a long chain."
)
TOO_LONG = "The query is too long. Give long lists as a parameter, like {names:Array(String)}, or query in parts."

# Where in a query, or in the engine, the error occurred: the caller knows the query, and does not need the rest.
_WHERE = re.compile(
    r"[:.,]? (?:\(?[Ii]n scope |\(?In query |[Ww]hile executing|[Ww]hile processing|Stack trace|There was an error on)"
    r".*",
    re.DOTALL,
)
_FILE = re.compile(r": \(?in file/uri .*?\)(?=:|\.| |$)|\(in file/uri [^)]*\)")
# Names of its errors, its version, and advice about settings that no caller can change.
_ASIDE = re.compile(r"\s*\((?:[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+|version [^)]*|[^()]*setting[^()]*)\)")
_PLAIN: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.DOTALL), plain)
    for pattern, plain in (
        (r".*(?:AST is too deep|Maximum parse depth|parser depth|Too deep recursion|Stack size too large).*", TOO_DEEP),
        (r".*(?:AST is too big|Max query size exceeded|too many AST elements|Too many AST elements).*", TOO_LONG),
        (
            r".*Maximum recursive CTE evaluation depth.*",
            "WITH RECURSIVE goes on for more than 1000 rounds. Let its last SELECT end it with WHERE.",
        ),
        (
            r".*(?:does not support JSON serialization|is not supported by parseQueryToJSON).*",
            "only SELECT is possible here. portal_view lists tables and columns.",
        ),
        (r"'utf-8' codec can't decode.*", "it has a text that is not UTF-8."),
        (r".*Multi-statements are not allowed.*", "there is more than one statement."),
        (r"Empty query.*", "it is empty."),
        (
            r"(.*? is not closed: )?(?:.*: )?Syntax error: failed at position (\d+) \((.*?)\): .*",
            rf"\1{SYNTAX_ERROR} \2 (\3).",
        ),
        (r"Unknown expression (?:or function )?identifier (`.*?`)([. ].*|$)", r"There is no column \1\2"),
        (r"Identifier '(.+?)' cannot be resolved from .*?(\. Maybe you meant.*|$)", r"There is no column `\1`\2"),
        (
            r"Column (\S+) is not under aggregate function and not in GROUP BY keys.*",
            r"The column \1 is neither in an aggregate function nor in GROUP BY.",
        ),
        (
            r"There is no supertype for types (.*?) because.*",
            r"\1 have no type in common.",
        ),
        (
            r"OptimizedRegularExpression: cannot compile re2: (.*?), error: (.*?)\. Look at .*",
            r"This regular expression cannot be read: \2.",
        ),
        (
            r"(Cannot parse \w+ .*? as \w+): .*?Note: there are (\w+) and (\w+) functions.*",
            r"\1. \2 and \3 take anything.",
        ),
        (r"Unknown data type family: (\S+).*", r"There is no type \1."),
        (
            r"Substitution `?(\w+)`? is not set.*",
            r"The query has a parameter `\1`, and there is no value for it.",
        ),
        (
            r"(?:.*: )?[Vv]alue (.*) cannot be parsed as (.*?) for query parameter '(\w+)'.*",
            r"The value of '\3' does not fit \2.",
        ),
        (
            r"Cannot parse date: expected .*(?: format)?: while converting '(.*)' to (Date\w*).*",
            r"'\1' is not a valid \2. Write a date like '2026-01-31'.",
        ),
        (
            r"Cannot (?:read|parse) DateTime.*: while converting '(.*)' to (DateTime\w*).*",
            r"'\1' is not a time. Write one like '2026-01-31 10:00:00'.",
        ),
        (r"Cannot convert string '(.*)' to type (.*)", r"The text '\1' does not fit \2."),
        (r"Value in column \S+ cannot be safely converted into type (\S+?)[.:]?( .*|$)", r"A number does not fit \1."),
        (r"Cannot convert NULL value to non-Nullable type.*", "Something is null that must not be."),
        (r"Storage \S+ doesn't support (?:sampling|FINAL).*", "Tables of portals know neither SAMPLE nor FINAL."),
        (
            r"The number of column names (\d+) differs with the number of types (\d+).*",
            r"Lines have \2 values for \1 names.",
        ),
        (r'Duplicate column name found while schema inference: "(.*?)".*', r"Two columns are called '\1'."),
        (r"The table structure cannot be extracted from .*", "There is nothing in it."),
        (
            r".*(?:Parquet magic bytes not found|Parquet file size is|deserialize thrift|Parquet Thrift metadata).*",
            "It is not a Parquet file, or it is damaged.",
        ),
        (r".*(?:parquet|arrow)::\w+: (?:\w+: )?(.*)", r"\1"),
        (r"Unexpected EOF while reading .*", "It ends in the middle of a record."),
        (r"Cannot parse input: expected '\{' before: '(.*)'.*", r"There is no record at '\1'."),
    )
)
_ROW = re.compile(r"\(at row (\d+)\)|\bRow (\d+):")
_COLUMN = re.compile(r"while reading the value of key ([^)]+)\)|Column \d+,\s+name: (\w+)")


def plain_message(exc: Exception) -> str:
    """The engine's error message, without the location in the engine."""
    text = str(exc).rsplit("DB::Exception:", 1)[-1]
    text = _ASIDE.sub("", _FILE.sub("", text))
    text = " ".join(_WHERE.sub("", text.split("\n")[0]).split())
    for pattern, plain in _PLAIN:
        if found := pattern.fullmatch(text):
            text = found.expand(plain)
            break
    text = re.sub(r"\bportal\.(?=\w)|__table\d+\.|\.? Maybe you meant: \[[^]]*_row_exists[^]]*\]", "", text)
    text = re.sub(r"\.\.$", ".", text.rstrip(" :")[:500])
    return text if text.endswith((".", "!", "?")) else f"{text}."


def code(exc: Exception) -> int:
    number = str(exc).partition("Code: ")[2].partition(".")[0]
    return int(number) if number.isdigit() else 0


def is_of_a_parameter(exc: Exception) -> bool:
    """Whether a parameter lacks a value, or has one that does not fit."""
    return code(exc) in (456, 457) or " for query parameter '" in str(exc)


def misfit(message: str, first: int) -> str:
    """Which record does not fit, if the engine names it. `first` is the number of the first record."""
    row, column = _ROW.search(message), _COLUMN.search(message)
    if row is None:
        return f"a record does not fit. {message}".strip()
    number = int(row[1] or row[2]) - 1 + first
    if column is None:
        return f"record {number} does not fit: a value is of another type than its column."
    return f"{(column[1] or column[2])!r} of record {number} does not fit its column."
