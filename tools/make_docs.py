"""Make docs/tools.md, settings.md, errors.md and schema.md, and the end of command-line.md, from the code, and the
chart of README.md from benchmarks.md; with --check, say which are stale."""

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import typer

from memory_mcp.cli.main import cli
from memory_mcp.engines.sqlite.migrations import Schema
from memory_mcp.errors import CODES, HUB_CODES, KEY_CODES
from memory_mcp.families.family import Prompt, Tool
from memory_mcp.families.graph import schema as graph_schema
from memory_mcp.families.notes import schema as notes_schema
from memory_mcp.families.registry import FAMILIES
from memory_mcp.families.stores import schema as stores_schema
from memory_mcp.families.vault import schema as vault_schema
from memory_mcp.server import schemas
from memory_mcp.services.access import server_db
from memory_mcp.services.search_index import schema as index_schema
from memory_mcp.services.sessions import live_db
from memory_mcp.services.sync import hub
from memory_mcp.settings import SECRETS, Settings, env_name, env_names, flag
from tools.chart import chart

COMMAND_LINE = "command-line.md"  # only its end is made from the code
CHART = "pictures/graph-calls.svg"
DOCS = Path(__file__).parents[1] / "docs"
MADE = "<!-- Made by tools/make_docs.py from the code. Change it there, then run `make format`. -->\n"
ARGUMENT_RULES = """\
Arguments are taken as they are meant, where they can mean only one thing:

- `null` is the same as leaving an optional argument out.
- A number or a boolean may be text (`"5"`, `"true"`). Text stays text: `"5"` for a `query` is `"5"`.
- One value may stand for a list of one: `"tags": "work"`, `"entities": {"name": …}`. A list or an object may be JSON
  in a text.
- Every argument is known in camelCase, snake_case and kebab-case, and by common names of other servers: `entityType`,
  `text` for `content`, `q` for `query`, `top_k` for `limit`. Two names of one argument with two values are refused.
- The path of a store's memory may end with `.md`.

Bounds hold as the tables say. An unknown argument is refused with the nearest known one, `data.nearest`."""
FILES = {
    "server.db": server_db.SCHEMA,
    "live.db": live_db.SCHEMA,
    "memory.db": vault_schema.SCHEMA,
    "notes.db": notes_schema.SCHEMA,
    "stores.db": stores_schema.SCHEMA,
    "recall.db": index_schema.SCHEMA,
    "_meta.db": graph_schema.REGISTRY,
    "projects/<id>.db": graph_schema.PROJECT,
    "hub.db": hub.SCHEMA,
}


def tools() -> Iterator[str]:
    yield "# Tools"
    yield "The arguments and answers of each tool. Errors: [errors.md](errors.md)."
    yield ARGUMENT_RULES
    for family in FAMILIES.values():
        yield f"## {family.name}\n\nFor {family.purpose}."
        for tool in family.tools.values():
            yield from tool_section(tool)
        if family.templates:
            yield f"### Resources of {family.name}"
            yield "\n".join(f"- `{template.uri_template}`: {template.description}" for template in family.templates)
        if family.prompts:
            yield f"### Prompts of {family.name}"
            yield "\n".join(
                f"- `{prompt.name}` ({_arguments(prompt)}): {prompt.description}" for prompt in family.prompts
            )


def _arguments(prompt: Prompt) -> str:
    return ", ".join(f"{argument.name}{'' if argument.required else '?'}" for argument in prompt.arguments)


def tool_section(tool: Tool) -> Iterator[str]:
    yield f"### {tool.name}"
    yield f"{tool.description} Needs the scope `{tool.needs}`."
    given = schemas.input_schema(tool)
    rows = [
        f"| `{name}` | {kind(field)} | {'yes' if name in given.get('required', []) else default(field)} "
        f"| {field.get('description', '')} |"
        for name, field in given["properties"].items()
    ]
    yield "\n".join(["| argument | type | required | meaning |", "|---|---|---|---|", *rows])
    yield f"Answers with\n\n```json\n{json.dumps(schemas.output_schema(tool), indent=2)}\n```"


def kind(field: dict[str, Any]) -> str:
    if "enum" in field:
        return " or ".join(f"`{value}`" for value in field["enum"])
    bounds = [
        f"{name} {field[name]}"
        for name in ("minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems")
        if name in field
    ]
    return ", ".join([field.get("type", "any") + inner(field), *bounds])


def inner(field: dict[str, Any]) -> str:
    """What stands in a list, or in an object."""
    if "items" in field:
        return f" of ({kind(field['items'])})"
    if "properties" in field:
        required = field.get("required", [])
        fields = (
            f"`{name}`{'' if name in required else '?'}: {kind(part)}" for name, part in field["properties"].items()
        )
        return " {" + "; ".join(fields) + "}"
    return ""


def default(field: dict[str, Any]) -> str:
    return f"no, `{json.dumps(field['default'])}`" if "default" in field else "no"


def settings() -> Iterator[str]:
    yield "# Settings"
    yield (
        "Each is, first found wins: a flag, an environment variable, a line in `config.toml` in the data directory, "
        "the default. `memory-mcp config` prints each value and where it came from."
    )
    for name, field in Settings.model_fields.items():
        default = None if field.default_factory else field.get_default()
        shown = f" · default `{plain(default)}`" if default not in (None, ()) else ""
        yield f"## {name}"
        others = "".join(f", `{variable}`" for variable in env_names(name)[1:])
        spelled = "" if name in SECRETS else f"`{flag(name)}` · "
        yield f"{field.description}\n\n{spelled}`{env_name(name)}`{others}{shown}"


def plain(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def errors() -> Iterator[str]:
    yield "# Errors"
    yield (
        "Every error has a code that programs can rely on and a message that says what to do. Tools of vault and "
        "stores answer with a JSON-RPC error, code -32602 for what the caller can fix and -32603 for what failed on "
        'our side, and `data` = `{"error": code, …}`. Resources and prompts answer the same way. Tools of notes, graph '
        'and portals answer with a result whose `isError` is true and whose structured content is `{"error": code, '
        '"message": text, "data": {…}}`. An unknown tool is -32602. Over REST and at the command line the '
        "message names no tools, but what a person can do."
    )
    for code, meaning in CODES.items():
        yield f"## {code}\n\n{meaning}"
    yield "# Over HTTP, before MCP is reached"
    yield (
        'The body is `{"error": code, "message": text, "data": {}}`. A key that is not accepted gets 401 and a '
        "`WWW-Authenticate` header, under one of the codes below; a Host that is not ours gets 421, an Origin that is "
        "not ours 403, a body over 4 MiB, or with over 110,000 lists and objects, 413."
    )
    for code, meaning in KEY_CODES.items():
        yield f"## {code}\n\n{meaning}"
    yield "# From a hub"
    yield "Codes that only a hub sends, to a node ([sync](sync.md))."
    for code, meaning in HUB_CODES.items():
        yield f"## {code}\n\n{meaning}"


def schema() -> Iterator[str]:
    yield "# Files and tables"
    yield "What each SQLite file in the data directory holds, as the migrations make it."
    for name, made in FILES.items():
        yield f"## {name}"
        yield f"Schema version {made.version} (`PRAGMA user_version`). Any SQLite from 3.43 on can read it."
        yield f"```sql\n{statements(made)}\n```"


def statements(made: Schema) -> str:
    with tempfile.TemporaryDirectory() as folder:
        connection = apsw.Connection(str(Path(folder) / "x.db"))
        for migration in made.migrations:
            connection.execute(migration.sql).fetchall()
        hidden = [row[0] for row in connection.execute("SELECT name FROM pragma_table_list WHERE type = 'shadow'")]
        rows = connection.execute(
            "SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%' ORDER BY rowid"
        ).fetchall()
        connection.close()
    return "\n\n".join(f"{sql};" for name, sql in rows if name not in hidden)


def commands() -> Iterator[str]:
    """The end of the page about the command line."""
    yield "## All commands"
    yield "Every command also takes `--data-dir` and `--json` where that has a meaning, and `--help`."
    rows = [_command_row(name, command) for name, command in _walk(typer.main.get_command(cli))]
    yield "\n".join(["| command | what it does | options |", "|---|---|---|", *rows])


def _walk(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    if not hasattr(command, "commands"):
        yield " ".join(path), command
    for name, one in getattr(command, "commands", {}).items():
        yield from _walk(one, (*path, name))


def _command_row(name: str, command: Any) -> str:
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    shown_arguments = [(one.metavar or one.name.upper(), one.required) for one in arguments]
    usage = " ".join([name, *(one if required else f"[{one}]" for one, required in shown_arguments)])
    purpose = " ".join(command.help.split("\n\n")[0].split())
    names = [one.opts[0] for one in command.params if one.param_type_name == "option"]
    shown = ", ".join(f"`{one}`" for one in names if one not in ("--data-dir", "--json"))
    return f"| `{usage}` | {purpose} | {shown or ('[settings](settings.md)' if not names else '')} |"


PAGES = {"tools.md": tools, "settings.md": settings, "errors.md": errors, "schema.md": schema}


def main() -> int:
    stale = []
    texts = {name: MADE + "\n" + "\n\n".join(page()) + "\n" for name, page in PAGES.items()}
    own, _, _ = (DOCS / COMMAND_LINE).read_text(encoding="utf-8").partition(MADE)
    texts[COMMAND_LINE] = f"{own.rstrip()}\n\n{MADE}" + "\n" + "\n\n".join(commands()) + "\n"
    texts[CHART] = chart((DOCS / "benchmarks.md").read_text(encoding="utf-8"))
    for name, text in texts.items():
        path = DOCS / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(name)
            if "--check" not in sys.argv:
                path.write_text(text, encoding="utf-8")
    if stale and "--check" in sys.argv:
        print(f"Stale: {', '.join(stale)}. Run `make format`.")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
