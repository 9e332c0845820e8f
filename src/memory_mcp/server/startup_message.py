"""The text that a starting HTTP server prints, and the page for signed-out visitors."""

import html
import json
import shlex

from memory_mcp import __version__
from memory_mcp.clients.model import CLIENTS, NAME, ClientProgram, Http, shown_command
from memory_mcp.services.access.sign_ins import sign_in_url
from memory_mcp.settings import Settings, default_data_dir

PLACEHOLDER = "YOUR_KEY"
COMMAND = "memory-mcp"


def text(settings: Settings, port: int, new_key: str | None, sign_in_token: str | None) -> str:
    """The URLs, the key and the snippets to paste. A new key is shown only here."""
    here = f"http://{settings.url_host}:{port}"
    base = settings.public_url or here
    command, folder = shown_command(), _folder_flag(settings)
    lines = [
        f"Memory MCP {__version__}",
        "",
        f"  Open     {sign_in_url(base, sign_in_token) if sign_in_token else base + '/'}",
        f"  MCP      {base}/mcp",
        *([f"  Listens  {here}"] if settings.public_url else []),  # for the setup of the proxy
        f"  Data     {settings.data_dir}",
        "",
    ]
    if settings.auth == "none":
        lines += ["No key is required (--auth none).", ""]
        return "\n".join([*lines, *_snippets(base, None, command), "", ""])
    if sign_in_token:
        lines += [
            "The first link signs you in, once, within a day.",
            f"`{command} users link{folder}` prints another.",
            "",
        ]
    else:
        lines += [
            f"`{command} open{folder}` opens the web app, signed in.",
            f"`{command} users link{folder}` prints a link.",
            "",
        ]
    if new_key:
        lines += ["Your key, shown this once:", "", f"  {new_key}", ""]
    else:
        lines += [f"Use the key you have, or create another:\n`{command} keys create --name NAME{folder}`", ""]
    return "\n".join([*lines, *_snippets(base, new_key or PLACEHOLDER, command), "", ""])


def _folder_flag(settings: Settings) -> str:
    """For commands that must find the data of this server."""
    is_default = settings.data_dir == default_data_dir("memory-mcp")
    return "" if is_default else f" --data-dir {shlex.quote(str(settings.data_dir))}"


def _snippets(base: str, key: str | None, command: str = COMMAND) -> list[str]:
    """For the command line of this machine, and for clients on others."""
    endpoint = Http(f"{base}/mcp", key)
    key_flag, header = (f" --key {key}", f' --header "Authorization: Bearer {key}"') if key else ("", "")
    return [
        "Connect a client:",
        "",
        f"  {command} connect CLIENT --http {base}{key_flag}",
        f"  CLIENT is one of {', '.join(CLIENTS)}.",
        "",
        "Or by hand:",
        "",
        f"  Claude Code   claude mcp add --transport http {NAME} {endpoint.url}{header}",
        *(f"  {CLIENTS[id_].title:<13} {_pasted(CLIENTS[id_], endpoint)}" for id_ in ("cursor", "vscode")),
    ]


def _pasted(client: ClientProgram, endpoint: Http) -> str:
    return json.dumps({client.section: {NAME: client.entry(endpoint)}})


def page(settings: Settings, base_url: str, form: str) -> str:
    """The page for signed-out visitors: the sign-in form, and how to connect a client."""
    base = base_url.rstrip("/")
    key = PLACEHOLDER if settings.auth == "key" else None
    snippets = html.escape("\n".join(_snippets(base, key)))
    return framed(
        "Memory MCP",
        f"""<h2>Sign in</h2>
{form}
<h2>Connect a client</h2>
<p>Version {__version__} is running. It speaks the Model Context Protocol at
<code>{html.escape(base)}/mcp</code>.</p>
<pre tabindex="0">{snippets}</pre>
<p>Create keys on the page Connect, or with <code>memory-mcp keys create --name NAME</code>.</p>""",
    )


def framed(title: str, inner: str) -> str:
    return f"""<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{html.escape(title)}</title>
<style>
:root {{ color-scheme: light dark; --fg: #17181c; --bg: #fff; --bg2: #f5f6f8; --mut: #565b66; --line: #dcdfe6;
  --accent: #1b57c0; --bad: #b3261e; }}
@media (prefers-color-scheme: dark) {{ :root {{ --fg: #eceef2; --bg: #17181c; --bg2: #212329; --mut: #a6acb9;
  --line: #343843; --accent: #86b4ff; --bad: #ff9189; }} }}
body {{ font: 14px/1.5 system-ui, sans-serif; color: var(--fg); background: var(--bg); max-width: 46rem;
  margin: 3rem auto; padding: 0 1rem; }}
h1 {{ font-size: 22px; }} h2 {{ font-size: 15px; }}
form, details {{ border: 1px solid var(--line); border-radius: 8px; padding: 0 14px; margin: 14px 0; }}
details {{ padding: 8px 14px; }}
label {{ display: block; }}
input {{ display: block; box-sizing: border-box; width: 100%; max-width: 22rem; min-height: 44px; padding: 5px 10px;
  font: inherit; color: inherit; background: var(--bg); border: 1px solid var(--mut); border-radius: 8px; }}
button {{ min-height: 44px; padding: 5px 14px; font: inherit; font-weight: 600; color: var(--bg);
  background: var(--accent); border: 0; border-radius: 8px; cursor: pointer; }}
summary {{ cursor: pointer; min-height: 26px; }}
[role=alert] {{ color: var(--bad); }}
code, pre {{ font-size: 12.5px; background: var(--bg2); border-radius: 4px; }}
pre {{ overflow-x: auto; padding: 14px; border: 1px solid var(--line); border-radius: 8px; }}
:focus-visible {{ outline: 2px solid var(--accent); outline-offset: 2px; }}
</style>
<main>
<h1>{html.escape(title)}</h1>
{inner}
</main>
</html>
"""
