"""Memory MCP: the memory every AI agent plugs in."""

import sys

if sys.version_info < (3, 11):  # noqa: UP036  # every older Python reads this file: only syntax that all of them know
    sys.exit("memory-mcp: Memory MCP needs Python 3.11 or newer, but this is Python " + sys.version.split()[0] + ".")

__version__ = "0.1.0"
DISTRIBUTION = "five-memories"  # its name on PyPI, where memory-mcp is another project
